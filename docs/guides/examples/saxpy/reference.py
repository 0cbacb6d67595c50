"""Inputs, expected outputs, attainable accuracy and baselines. Only runners, the disposable processes of workers,
execute this file.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def inputs(problem: Mapping[str, Any], distribution: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw the inputs of one case, by argument name and in the argument's dtype."""
    mean = {"normal": 0.0, "offset": 10.0}[distribution]
    return {name: rng.normal(mean, 1.0, problem["N"]).astype(np.float32) for name in ("x", "y")}


def reference(problem: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the expected outputs in float64, computed from the same float32 inputs."""
    x, y = (inputs[name].astype(np.float64) for name in ("x", "y"))
    return {"out": problem["A"] * x + y}


def yardstick(problem: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the outputs of a naive float32 computation. The error of a kernel is compared with the error of these
    outputs.
    """
    return {"out": np.float32(problem["A"]) * inputs["x"] + inputs["y"]}


def baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[dict[str, np.ndarray]], Callable[[], object]]]:
    """Return the implementations to beat, by name. Each takes the inputs and returns the function to time."""

    def with_numpy(inputs: dict[str, np.ndarray]) -> Callable[[], object]:
        a, x, y = np.float32(problem["A"]), inputs["x"], inputs["y"]
        out = np.empty_like(x)

        def call() -> object:
            np.multiply(x, a, out=out)
            return np.add(out, y, out=out)

        return call

    return {"numpy": with_numpy}
