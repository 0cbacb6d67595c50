"""GELU by the error function."""

import math

import numpy as np


def inputs(problem, distribution, rng):
    shape = (problem["ROWS"], problem["COLUMNS"])
    return {"x": rng.standard_normal(shape, np.float32), "bias": rng.standard_normal(shape[1], np.float32)}


def reference(problem, inputs):
    value = inputs["x"].astype(np.float64) + inputs["bias"]
    return {"out": 0.5 * value * (1 + np.vectorize(math.erf)(value / math.sqrt(2)))}
