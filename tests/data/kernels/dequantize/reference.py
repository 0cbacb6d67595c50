"""E4M3 codes times scales."""

import numpy as np

from evo.reference.encoding import decoded, encoded


def inputs(problem, distribution, rng):
    values = rng.standard_normal((problem["ROWS"], problem["COLUMNS"]), np.float32)
    return {"codes": encoded(values, "float8_e4m3"), "scales": rng.uniform(0.5, 2, problem["ROWS"]).astype(np.float32)}


def reference(problem, inputs):
    numbers = decoded(inputs["codes"], "float8_e4m3").astype(np.float64)
    return {"out": numbers * inputs["scales"][:, None]}
