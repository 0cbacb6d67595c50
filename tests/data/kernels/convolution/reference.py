import numpy as np


def inputs(problem, distribution, rng):
    return {"image": rng.standard_normal((problem["H"], problem["W"]), np.float32)}


def reference(problem, inputs):
    weights = np.outer([1, 2, 1], [1, 2, 1]) / 16
    windows = np.lib.stride_tricks.sliding_window_view(inputs["image"].astype(np.float64), (3, 3))
    return {"out": (windows * weights).sum(axis=(2, 3))}
