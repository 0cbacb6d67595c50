"""Softmax as it is defined, how exact float32 can be, and what there is to beat. Runs only in a disposable child."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from evo.rows import by_rows, normal_rows, raise_columns
from evo.torch_baselines import torch_baselines

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]

MEAN_AND_DEVIATION = {
    "normal": (0.0, 1.0),
    "offset": (50.0, 2.0),
    "peaked": (0.0, 1.0),
    "falling": (0.0, 1.0),
    "large": (0.0, 40.0),
    "small": (0.0, 1e-3),
}


def inputs(problem: Mapping[str, Any], distribution: str, rng: np.random.Generator) -> dict[str, Array]:
    """Draw x, (rows, cols).

    Args:
        distribution: ``normal``: N(0, 1). ``offset``: a mean that must cancel. ``peaked``: a late column and the last
            one tower above the others. ``falling``: a few columns do, the first among them. ``large``: exp overflows
            unless the row's maximum is taken off. ``small``: nearly equal results.
    """
    mean, deviation = MEAN_AND_DEVIATION[distribution]
    x = normal_rows(rng, (problem["rows"], problem["cols"]), mean, deviation)
    if distribution == "peaked":
        late = rng.integers(problem["cols"] // 2, problem["cols"])
        x[:, np.unique([late, problem["cols"] - 1])] += 30.0
    if distribution == "falling":
        raise_columns(rng, x, 30.0)
    return {"x": x.astype(problem["dtype"], copy=False)}


@by_rows
def reference(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """The result in float64, from the same inputs."""
    return {"out": _softmax(inputs["x"].astype(np.float64))}


@by_rows
def yardstick(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """The same in the inputs' own precision: its error is the measure of a kernel's error."""
    return {"out": _softmax(inputs["x"])}


def baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """What to beat on a CPU: each takes the inputs and returns the call that is timed.

    ``numpy`` is softmax as one writes it down, ``numpy-in-place`` and ``torch`` write into memory they already have;
    torch takes as many threads as ``OMP_NUM_THREADS`` says (1 if unset).
    """

    def with_numpy(inputs: Arrays) -> Callable[[], object]:
        return lambda: _softmax(inputs["x"])

    def with_numpy_in_place(inputs: Arrays) -> Callable[[], object]:
        x, out = inputs["x"], np.empty_like(inputs["x"])

        def call() -> object:
            np.subtract(x, x.max(axis=-1, keepdims=True), out=out)
            np.exp(out, out=out)
            return np.divide(out, out.sum(axis=-1, keepdims=True), out=out)

        return call

    def with_torch(inputs: Arrays) -> Callable[[], object]:
        import torch

        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
        x = torch.from_numpy(inputs["x"])
        out = torch.empty_like(x)
        return lambda: torch.softmax(x, dim=-1, out=out)

    return {"numpy": with_numpy, "numpy-in-place": with_numpy_in_place, "torch": with_torch}


def cuda_baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """What to beat on a GPU: PyTorch's softmax, compiled as well, and ``naive``, row by row in CuPy."""

    def naive(inputs: Arrays) -> Callable[[], object]:
        import cupy

        x = cupy.asarray(inputs["x"])

        def call() -> object:
            weights = cupy.exp(x - x.max(axis=-1, keepdims=True))
            return weights / weights.sum(axis=-1, keepdims=True)

        return call

    return {**torch_baselines(_softmax_of_torch, ("x",)), "naive": naive}


def _softmax_of_torch(x: Any) -> object:
    import torch

    return torch.softmax(x, dim=-1)


def _softmax(x: Array) -> Array:
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    result: Array = weights / weights.sum(axis=-1, keepdims=True)
    return result
