"""Inputs, expected outputs, the yardstick, and baselines on a GPU."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def inputs(problem: Mapping[str, Any], distribution: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw x and y, each of N float32 numbers."""
    mean = {"normal": 0.0, "offset": 10.0}[distribution]
    return {name: rng.normal(mean, 1.0, problem["N"]).astype(np.float32) for name in ("x", "y")}


def reference(problem: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the expected outputs in float64, computed from the same float32 inputs."""
    x, y = (inputs[name].astype(np.float64) for name in ("x", "y"))
    return {"out": problem["A"] * x + y}


def yardstick(problem: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the outputs of a float32 computation. A kernel's error is compared with the error of these outputs."""
    return {"out": np.float32(problem["A"]) * inputs["x"] + inputs["y"]}


def cuda_baselines(
    problem: Mapping[str, Any],
) -> dict[str, Callable[[Mapping[str, np.ndarray]], Callable[[], object]]]:
    """Return the implementations to beat, by name. Each takes the inputs and returns the function to time."""

    def with_cupy(inputs: Mapping[str, np.ndarray]) -> Callable[[], object]:
        import cupy

        a, x, y = np.float32(problem["A"]), cupy.asarray(inputs["x"]), cupy.asarray(inputs["y"])
        return lambda: a * x + y

    return {"cupy": with_cupy}
