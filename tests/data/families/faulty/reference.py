"""y = 3 x + 1."""

import numpy as np


def inputs(problem, distribution, rng):
    offset = {"normal": 0.0, "shifted": 2.0, "peaked": 0.0}[distribution]
    x = (rng.standard_normal(problem["N"]) + offset).astype(np.float32)
    if distribution == "peaked":
        x[rng.integers(x.size)] = 100.0  # the other elements hardly count in comparison
    return {"x": x}


def reference(problem, inputs):
    return {"y": 3.0 * inputs["x"].astype(np.float64) + 1.0}


def yardstick(problem, inputs):
    return {"y": np.float32(3.0) * inputs["x"] + np.float32(1.0)}


def baselines(problem):
    return {"numpy": _numpy, "wrong": _wrong, "absent": _absent}


def _numpy(inputs):
    x = inputs["x"]
    return lambda: 3.0 * x + 1.0


def _wrong(inputs):
    x = inputs["x"]
    return lambda: 2.0 * x


def _absent(inputs):
    import no_such_library  # noqa: F401
