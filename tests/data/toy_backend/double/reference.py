"""Twice the input."""

import numpy as np


def inputs(problem, distribution, rng):
    return {"x": rng.standard_normal(problem["N"]).astype(np.float32)}


def reference(problem, inputs):
    return {"out": 2.0 * inputs["x"].astype(np.float64)}
