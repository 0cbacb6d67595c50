"""Expected output and baselines."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def inputs(problem: Mapping[str, Any], distribution: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A matrix of normally distributed floats, the only distribution the cases name."""
    return {"matrix": rng.standard_normal((problem["ROWS"], problem["COLUMNS"]), dtype=np.float32)}


def reference(problem: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The transpose; moving numbers is exact, so the tolerance is zero."""
    return {"out": inputs["matrix"].T.astype(np.float64)}


def baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[dict[str, np.ndarray]], Callable[[], object]]]:
    """NumPy's own copy of a transposed view."""

    def with_numpy(inputs: dict[str, np.ndarray]) -> Callable[[], object]:
        matrix = inputs["matrix"]
        out = np.empty(matrix.T.shape, dtype=matrix.dtype)
        return lambda: np.copyto(out, matrix.T)

    return {"numpy": with_numpy}
