"""Inputs, reference and baselines for transposition. Only runners execute this file."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from evo.reference import Array, Arrays
from evo.reference.encoding import decoded, encoded, stored
from evo.reference.pieces import normals
from evo.reference.rows import by_rows
from evo.reference.torch_baselines import torch_baselines, torch_on_cpu


def inputs(problem: Mapping[str, Any], distribution: str, rng: np.random.Generator) -> dict[str, Array]:
    """Draw `x` of shape (rows, cols).

    Args:
        distribution: ``normal`` draws N(0, 1). ``bits`` draws numbers with random bit patterns (except infinity and
            NaN), to check that each bit is copied. Only the sign of zeros is not compared.
    """
    shape, dtype = (problem["rows"], problem["cols"]), problem["dtype"]
    if distribution == "normal":
        return {"x": encoded(normals(rng, shape), dtype)}
    x = np.frombuffer(rng.bytes(math.prod(shape) * stored(dtype).itemsize), stored(dtype))
    return {"x": np.where(np.isfinite(decoded(x, dtype)), x, 0).astype(x.dtype).reshape(shape)}


def reference(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return the transpose, of shape (cols, rows). The tolerance is zero, because copies are exact."""
    return _exact(problem, {"x": inputs["x"].T})


@by_rows
def _exact(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    return {"out": decoded(inputs["x"], problem["dtype"]).astype(np.float64)}


def baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """Return CPU baselines by name. A baseline takes the inputs and returns the function whose calls are timed.

    ``numpy`` copies a transposed view. ``numpy-in-place`` and ``torch`` copy the view to preallocated arrays. ``torch``
    uses ``OMP_NUM_THREADS`` threads, or one thread if the variable is not set.
    """

    def with_numpy(inputs: Arrays) -> Callable[[], object]:
        return inputs["x"].T.copy

    def with_numpy_in_place(inputs: Arrays) -> Callable[[], object]:
        x = inputs["x"]
        out = np.empty(x.T.shape, x.dtype)

        def call() -> object:
            np.copyto(out, x.T)
            return out

        return call

    def with_torch(inputs: Arrays) -> Callable[[], object]:
        torch = torch_on_cpu()
        x = torch.from_numpy(inputs["x"])
        out = torch.empty(x.T.shape, dtype=x.dtype)
        return lambda: out.copy_(x.T)

    return {"numpy": with_numpy, "numpy-in-place": with_numpy_in_place, "torch": with_torch}


def cuda_baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """Return GPU baselines: PyTorch's copy, eager and compiled, and ``naive``, CuPy's copy."""

    def naive(inputs: Arrays) -> Callable[[], object]:
        import cupy

        x = cupy.asarray(inputs["x"])
        return lambda: cupy.ascontiguousarray(x.T)

    return {**torch_baselines(_copied, ("x",), dtype=problem["dtype"]), "naive": naive}


def _copied(x: Any) -> object:
    return x.T.contiguous()
