"""Twice the input."""

import numpy as np


def inputs(problem, distribution, rng):
    return {"x": rng.standard_normal(problem["N"], np.float32)}


def reference(problem, inputs):
    return {"out": 2 * inputs["x"].astype(np.float64)}
