"""Inputs, reference, yardstick and baselines for RMSNorm with an optional residual. Only runners execute this file."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from evo.reference import Array, Arrays
from evo.reference.encoding import decoded, encoded, rounded
from evo.reference.rivals import rivals
from evo.reference.rows import by_rows, normal_rows, raise_columns
from evo.reference.torch_baselines import on_cpu, torch_baselines

EPSILON = 1e-6
MEAN_AND_DEVIATION = {
    "normal": (0.0, 1.0),
    "offset": (50.0, 2.0),
    "peaked": (0.0, 1.0),
    "large": (0.0, 8000.0),
    "small": (0.0, 2e-3),
}


def inputs(problem: Mapping[str, Any], distribution: str, rng: np.random.Generator) -> dict[str, Array]:
    """Draw `x` and an optional `residual` of shape (rows, cols), and weights around 1 of shape (cols,).

    Args:
        distribution: distribution of `x` and `residual`. ``normal`` draws N(0, 1). ``offset`` has a mean other than 0,
            so a kernel that subtracts the mean gives a wrong result. With ``peaked``, a few columns have most of the
            sum of squares. With ``large``, squares overflow float16. With ``small``, EPSILON affects the result.
    """
    mean, deviation = MEAN_AND_DEVIATION[distribution]
    shape = (problem["rows"], problem["cols"])
    drawn = {"x": normal_rows(rng, shape, mean, deviation)}
    if distribution == "peaked":
        raise_columns(rng, drawn["x"], max(300.0, problem["cols"] ** 0.5))
    if problem["residual"]:
        drawn["residual"] = normal_rows(rng, shape, mean, deviation)
    drawn["weight"] = rng.normal(1.0, 0.25, problem["cols"])
    return {name: encoded(values, problem["dtype"]) for name, values in drawn.items()}


@by_rows
def reference(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return the expected outputs, computed in float64.

    The sum with a residual is rounded to the inputs' dtype before normalisation.
    """
    dtype = problem["dtype"]
    x, weight = (decoded(inputs[name], dtype).astype(np.float64) for name in ("x", "weight"))
    sums = {}
    if problem["residual"]:
        sums["sum"] = x + decoded(inputs["residual"], dtype)
        x = rounded(sums["sum"], dtype).astype(np.float64)
    x = x / np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True) + EPSILON)
    x *= weight
    return {**sums, "out": x}


@by_rows
def yardstick(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return the results, with sums in float32 and all later steps rounded to the inputs' dtype.

    Kernel errors are compared with the errors of these results.
    """
    dtype = problem["dtype"]
    x, weight = (decoded(inputs[name], dtype) for name in ("x", "weight"))
    sums = {}
    if problem["residual"]:
        x = sums["sum"] = rounded(x + decoded(inputs["residual"], dtype), dtype)
    return {**sums, "out": rounded(rounded(_scaled(x), dtype) * weight, dtype)}


def baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """Return CPU baselines by name. A baseline takes the inputs and returns the function whose calls are timed.

    ``numpy`` computes the plain formula. ``numpy-in-place`` writes to preallocated arrays. ``torch`` uses
    ``OMP_NUM_THREADS`` threads, or one thread if the variable is not set.
    """

    def with_numpy(inputs: Arrays) -> Callable[[], object]:
        return partial(yardstick, problem, inputs)

    def with_numpy_in_place(inputs: Arrays) -> Callable[[], object]:
        x, weight, out = inputs["x"], inputs["weight"], np.empty_like(inputs["x"])
        total_x = np.empty_like(x) if problem["residual"] else x

        def call() -> object:
            if problem["residual"]:
                np.add(x, inputs["residual"], out=total_x)
            total = np.einsum("rc,rc->r", total_x, total_x)[:, None]
            np.multiply(total_x, 1 / np.sqrt(total / x.shape[1] + np.float32(EPSILON)), out=out)
            return np.multiply(out, weight, out=out)

        return call

    with_torch = partial(on_cpu, _function(problem), _names(problem), problem["dtype"])
    if problem["dtype"] == "bfloat16":
        return {"numpy": with_numpy, "torch": with_torch}
    return {"numpy": with_numpy, "numpy-in-place": with_numpy_in_place, "torch": with_torch}


def cuda_baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """Return GPU baselines: PyTorch's RMSNorm, eager and compiled, and (not for bfloat16) ``naive`` in CuPy."""

    def naive(inputs: Arrays) -> Callable[[], object]:
        import cupy

        arrays = {name: cupy.asarray(inputs[name]) for name in _names(problem)}

        def call() -> object:
            x = arrays["x"] + arrays["residual"] if problem["residual"] else arrays["x"]
            wide = x.astype(cupy.float32)
            factor = 1 / cupy.sqrt((wide * wide).mean(axis=-1, keepdims=True) + EPSILON)
            return x, (wide * factor).astype(x.dtype) * arrays["weight"]

        return call

    offered = torch_baselines(_function(problem), _names(problem), dtype=problem["dtype"])
    offered |= rivals("rmsnorm", problem)
    return offered if problem["dtype"] == "bfloat16" else {**offered, "naive": naive}


def _names(problem: Mapping[str, Any]) -> tuple[str, ...]:
    return ("x", "residual", "weight") if problem["residual"] else ("x", "weight")


def _function(problem: Mapping[str, Any]) -> Callable[..., object]:
    return _added if problem["residual"] else _normalised


def _normalised(x: Any, weight: Any) -> object:
    import torch

    return torch.nn.functional.rms_norm(x, weight.shape, weight, EPSILON)


def _added(x: Any, residual: Any, weight: Any) -> object:
    total = x + residual
    return total, _normalised(total, weight)


def _scaled(x: Array) -> Array:
    """Return rows divided by their root mean square, in float32."""
    wide = x.astype(np.float32)
    result: Array = wide * (1 / np.sqrt(np.mean(wide * wide, axis=-1, keepdims=True) + np.float32(EPSILON)))
    return result
