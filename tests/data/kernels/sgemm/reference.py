"""A matrix product."""

import numpy as np


def inputs(problem, distribution, rng):
    m, n, k = problem["M"], problem["N"], problem["K"]
    return {"a": rng.standard_normal((m, k), np.float32), "b": rng.standard_normal((k, n), np.float32)}


def reference(problem, inputs):
    return {"c": inputs["a"].astype(np.float64) @ inputs["b"]}
