"""Inputs, expected output and baselines."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def inputs(problem: Mapping[str, Any], distribution: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw a matrix of normally distributed floats, the distribution of all cases."""
    return {"matrix": rng.standard_normal((problem["ROWS"], problem["COLUMNS"]), dtype=np.float32)}


def reference(problem: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the transpose. Moving numbers is exact, so the tolerance is zero."""
    return {"out": inputs["matrix"].T.astype(np.float64)}


def baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[dict[str, np.ndarray]], Callable[[], object]]]:
    """Return the baseline: NumPy copies a transposed view."""

    def with_numpy(inputs: dict[str, np.ndarray]) -> Callable[[], object]:
        matrix = inputs["matrix"]
        out = np.empty(matrix.T.shape, dtype=matrix.dtype)
        return lambda: np.copyto(out, matrix.T)

    return {"numpy": with_numpy}
