import numpy as np


def inputs(problem, distribution, rng):
    rows, cols = problem["ROWS"], problem["COLS"]
    x = rng.standard_normal((rows, cols), np.float32).astype(np.float16)
    return {"x": x, "weight": rng.standard_normal(cols, np.float32).astype(np.float16)}


def reference(problem, inputs):
    x = inputs["x"].astype(np.float64)
    scale = 1 / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6)
    return {"out": x * scale * inputs["weight"].astype(np.float64)}
