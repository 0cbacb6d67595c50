"""Inputs, reference and baselines for sums and maxima of rows. Only runners execute this file."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from evo.reference import Array, Arrays
from evo.reference.encoding import decoded, encoded, largest
from evo.reference.rows import a_column_each, normal_rows, raise_columns
from evo.reference.torch_baselines import tensor_of, torch_baselines, torch_on_cpu

MEAN_AND_DEVIATION = {
    "normal": (1.0, 1.0),
    "negative": (-2.0, 1.0),
    "peaked": (1.0, 1.0),
    "everywhere": (1.0, 1.0),
    "large": (100.0, 10.0),
    "small": (1e-3, 1e-3),
}
LEAST = 1500.0
NEAR_LOWEST = 0.98
"""Lowest element of inputs for maxima, as a fraction of the lowest number of the dtype.

A running maximum that starts above these elements would give a wrong output.
"""


def inputs(problem: Mapping[str, Any], distribution: str, rng: np.random.Generator) -> dict[str, Array]:
    """Draw `x` of shape (rows, cols). Sums of rows are not near zero, so relative errors are meaningful.

    Args:
        distribution: ``normal`` draws N(1, 1). With ``negative``, all elements are below zero and the first element of
            each row is the largest, so that a running maximum must not start at zero. If the problem reduces to maxima,
            these elements are near the lowest number of the dtype. With ``peaked``, a few columns are far larger than
            the rest, most of all the last column. With ``everywhere``, each row has one large element, in a different
            part of the columns. With ``large``, partial sums overflow float16. ``small`` draws numbers with mean and
            standard deviation 0.001.
    """
    mean, deviation = MEAN_AND_DEVIATION[distribution]
    x = normal_rows(rng, (problem["rows"], problem["cols"]), mean, deviation)
    if distribution == "peaked":
        raise_columns(rng, x, 1000.0)
        x[:, -1] += 1000.0
    if distribution == "everywhere":
        x[range(len(x)), a_column_each(rng, *x.shape)] += 1000.0
    if distribution == "negative":
        np.negative(np.abs(x), out=x)  # N(-2, 1) has some positive elements
        x -= LEAST
        x[:, 0] = 1.0 - LEAST
        if problem["op"] == "max":
            x /= -x.min()
            x *= np.float32(NEAR_LOWEST * largest(problem["dtype"]))
    return {"x": encoded(x, problem["dtype"])}


def reference(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return the expected output, computed in float64."""
    x = decoded(inputs["x"], problem["dtype"])
    if problem["op"] == "max":
        return {"out": x.max(axis=-1).astype(np.float64)}
    return {"out": x.sum(axis=-1, dtype=np.float64)}


def yardstick(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return the result, computed sequentially in float32. Kernel errors are compared with the error of this result."""
    x = decoded(inputs["x"], problem["dtype"])
    if problem["op"] == "max":
        return {"out": x.max(axis=-1).astype(np.float32)}
    return {"out": np.array([np.cumsum(row, dtype=np.float32)[-1] for row in x])}


def baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """Return CPU baselines by name. A baseline takes the inputs and returns the function whose calls are timed.

    ``numpy`` computes the plain reduction. ``numpy-in-place`` writes to preallocated arrays, and computes sums as a
    product with ones. ``torch`` uses ``OMP_NUM_THREADS`` threads, or one thread if the variable is not set.
    """

    def with_numpy(inputs: Arrays) -> Callable[[], object]:
        return lambda: _reduced(np, problem, inputs["x"])

    def with_numpy_in_place(inputs: Arrays) -> Callable[[], object]:
        x, out = inputs["x"], np.empty(problem["rows"], np.float32)
        if problem["op"] == "max":
            return lambda: np.max(x, axis=-1, out=out)
        ones = np.ones(problem["cols"], np.float32)
        return lambda: np.matmul(x, ones, out=out)

    def with_torch(inputs: Arrays) -> Callable[[], object]:
        torch_on_cpu()
        x = tensor_of(inputs["x"], problem["dtype"])
        return (lambda: x.amax(dim=-1)) if problem["op"] == "max" else (lambda: x.sum(dim=-1))

    if problem["dtype"] == "bfloat16":
        return {"numpy": lambda inputs: partial(yardstick, problem, inputs), "torch": with_torch}
    return {"numpy": with_numpy, "numpy-in-place": with_numpy_in_place, "torch": with_torch}


def cuda_baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """Return GPU baselines: PyTorch's reduction, eager and compiled, and (not for bfloat16) ``naive`` in CuPy."""

    def naive(inputs: Arrays) -> Callable[[], object]:
        import cupy

        x = cupy.asarray(inputs["x"])
        return lambda: _reduced(cupy, problem, x)

    function = _largest if problem["op"] == "max" else _summed
    offered = torch_baselines(function, ("x",), dtype=problem["dtype"])
    return offered if problem["dtype"] == "bfloat16" else {**offered, "naive": naive}


def _largest(x: Any) -> object:
    return x.amax(dim=-1)


def _summed(x: Any) -> object:
    import torch

    return x.sum(dim=-1, dtype=torch.float32)


def _reduced(library: Any, problem: Mapping[str, Any], x: Any) -> Any:
    """Return the reduction in float32, computed with NumPy or CuPy."""
    return x.max(axis=-1) if problem["op"] == "max" else x.sum(axis=-1, dtype=library.float32)
