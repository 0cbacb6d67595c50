"""Sums of rows of integers."""

import numpy as np


def inputs(problem, distribution, rng):
    return {"x": rng.integers(-1000, 1000, (problem["ROWS"], problem["COLUMNS"]), np.int32)}


def reference(problem, inputs):
    return {"sums": inputs["x"].sum(axis=1, dtype=np.int64)}
