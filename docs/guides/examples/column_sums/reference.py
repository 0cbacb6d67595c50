"""Computes the sums of columns with NumPy."""

import numpy as np


def inputs(problem, distribution, rng):
    return {"matrix": rng.standard_normal((problem["ROWS"], problem["COLUMNS"]), np.float32)}


def reference(problem, inputs):
    return {"sums": inputs["matrix"].sum(axis=0, dtype=np.float64)}


def yardstick(problem, inputs):
    return {"sums": inputs["matrix"].sum(axis=0)}


def cuda_baselines(problem):
    import cupy

    def with_cupy(inputs):
        matrix, out = cupy.asarray(inputs["matrix"]), cupy.empty(problem["COLUMNS"], cupy.float32)
        return lambda: cupy.sum(matrix, axis=0, out=out)

    return {"cupy": with_cupy}
