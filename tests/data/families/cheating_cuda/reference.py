"""y = 3 x + 1."""

import numpy as np


def inputs(problem, distribution, rng):
    x = rng.standard_normal(problem["N"]).astype(np.float32)
    if distribution == "peaked":
        x[problem["N"] // 2] = 100.0
    return {"x": x + np.float32(2.0 if distribution == "shifted" else 0.0)}


def reference(problem, inputs):
    return {"y": 3.0 * inputs["x"].astype(np.float64) + 1.0}


def yardstick(problem, inputs):
    return {"y": np.float32(3.0) * inputs["x"] + np.float32(1.0)}
