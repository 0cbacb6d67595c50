"""Counts of each byte."""

import numpy as np


def inputs(problem, distribution, rng):
    if distribution == "constant":
        return {"bytes": np.full(problem["N"], rng.integers(256), np.uint8)}
    return {"bytes": rng.integers(0, 256, problem["N"], np.uint8)}


def reference(problem, inputs):
    return {"counts": np.bincount(inputs["bytes"], minlength=256)}
