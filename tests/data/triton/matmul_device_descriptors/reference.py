import numpy as np


def inputs(problem, distribution, rng):
    m, n, k = problem["M"], problem["N"], problem["K"]
    a, b = (rng.standard_normal(shape, np.float32).astype(np.float16) for shape in ((m, k), (k, n)))
    return {"a": a, "b": b}


def reference(problem, inputs):
    return {"c": inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64)}
