"""Inputs, reference, yardstick and baselines for LayerNorm with an optional residual.

Only runners execute this file.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from evo.reference import Array, Arrays
from evo.reference.encoding import decoded, encoded, rounded
from evo.reference.rivals import rivals
from evo.reference.rows import by_rows, normal_rows, raise_columns
from evo.reference.torch_baselines import on_cpu, torch_baselines

EPSILON = 1e-5
MEAN_AND_DEVIATION = {
    "normal": (0.0, 1.0),
    "offset": (50.0, 2.0),
    "peaked": (0.0, 1.0),
    "large": (0.0, 1000.0),
    "small": (0.0, 2e-3),
}


def inputs(problem: Mapping[str, Any], distribution: str, rng: np.random.Generator) -> dict[str, Array]:
    """Draw `x` and an optional `residual` of shape (rows, cols), and weights and biases of shape (cols,).

    Weights are around 1, biases around 0.

    Args:
        distribution: distribution of `x` and `residual`. ``normal`` draws N(0, 1). ``offset`` has a large mean, which
            cancels in a correct kernel. With ``peaked``, a few columns have most of the variance. With ``large``,
            squares overflow float16. With ``small``, EPSILON affects the result.
    """
    mean, deviation = MEAN_AND_DEVIATION[distribution]
    shape, dtype = (problem["rows"], problem["cols"]), problem["dtype"]
    drawn = {name: normal_rows(rng, shape, mean, deviation) for name in _names(problem)[:-2]}
    if distribution == "peaked":
        raise_columns(rng, drawn["x"], max(300.0, problem["cols"] ** 0.5))
    drawn["weight"], drawn["bias"] = rng.normal(1.0, 0.25, problem["cols"]), rng.normal(0.0, 0.25, problem["cols"])
    return {name: encoded(values, dtype) for name, values in drawn.items()}


@by_rows
def reference(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return the expected outputs, computed in float64.

    The sum with a residual is rounded to the inputs' dtype before normalisation.
    """
    dtype = problem["dtype"]
    wide = {name: decoded(values, dtype).astype(np.float64) for name, values in inputs.items()}
    if not problem["residual"]:
        return {"out": _layernorm(wide["x"], wide["weight"], wide["bias"])}
    exact = wide["x"] + wide["residual"]
    stored = rounded(exact, dtype).astype(np.float64)
    return {"sum": exact, "out": _layernorm(stored, wide["weight"], wide["bias"])}


@by_rows
def yardstick(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return the results, with statistics in float32 and all later steps rounded to the inputs' dtype.

    Kernel errors are compared with the errors of these results.
    """
    dtype = problem["dtype"]
    x, weight, bias = (decoded(inputs[name], dtype) for name in ("x", "weight", "bias"))
    sums = {"sum": rounded(x + decoded(inputs["residual"], dtype), dtype)} if problem["residual"] else {}
    return {**sums, "out": rounded(rounded(rounded(_scaled(sums.get("sum", x)), dtype) * weight, dtype) + bias, dtype)}


def baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """Return CPU baselines by name. A baseline takes the inputs and returns the function whose calls are timed.

    ``numpy`` computes the plain formula. ``numpy-in-place`` writes to preallocated arrays. ``torch`` uses
    ``OMP_NUM_THREADS`` threads, or one thread if the variable is not set.
    """

    def with_numpy(inputs: Arrays) -> Callable[[], object]:
        return lambda: yardstick(problem, inputs)

    def with_numpy_in_place(inputs: Arrays) -> Callable[[], object]:
        x, weight, bias = (inputs[name] for name in ("x", "weight", "bias"))
        total, out = np.empty_like(x) if problem["residual"] else x, np.empty_like(x)

        def call() -> object:
            if problem["residual"]:
                np.add(x, inputs["residual"], out=total)
            np.subtract(total, total.mean(axis=-1, keepdims=True), out=out)
            variance = np.einsum("rc,rc->r", out, out)[:, None] / x.shape[1]
            np.multiply(out, 1 / np.sqrt(variance + np.float32(EPSILON)), out=out)
            np.multiply(out, weight, out=out)
            return {"sum": total, "out": np.add(out, bias, out=out)}

        return call

    with_torch = partial(on_cpu, _function(problem), _names(problem), problem["dtype"])
    if problem["dtype"] == "bfloat16":
        return {"numpy": with_numpy, "torch": with_torch}
    return {"numpy": with_numpy, "numpy-in-place": with_numpy_in_place, "torch": with_torch}


def cuda_baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """Return GPU baselines: PyTorch's layer norm, eager and compiled, and (not for bfloat16) ``naive`` in CuPy."""

    def naive(inputs: Arrays) -> Callable[[], object]:
        import cupy

        arrays = {name: cupy.asarray(inputs[name]) for name in _names(problem)}

        def call() -> object:
            total = arrays["x"] + arrays["residual"] if problem["residual"] else arrays["x"]
            wide = total.astype(cupy.float32)
            wide = wide - wide.mean(axis=-1, keepdims=True)
            factor = 1 / cupy.sqrt((wide * wide).mean(axis=-1, keepdims=True) + EPSILON)
            return total, (wide * factor).astype(total.dtype) * arrays["weight"] + arrays["bias"]

        return call

    offered = torch_baselines(_function(problem), _names(problem), dtype=problem["dtype"])
    offered |= rivals("layernorm", problem)
    return offered if problem["dtype"] == "bfloat16" else {**offered, "naive": naive}


def _names(problem: Mapping[str, Any]) -> tuple[str, ...]:
    return ("x", "residual", "weight", "bias") if problem["residual"] else ("x", "weight", "bias")


def _function(problem: Mapping[str, Any]) -> Callable[..., object]:
    return _added if problem["residual"] else _normalised


def _normalised(x: Any, weight: Any, bias: Any) -> object:
    import torch

    return torch.nn.functional.layer_norm(x, weight.shape, weight, bias, EPSILON)


def _added(x: Any, residual: Any, weight: Any, bias: Any) -> object:
    total = x + residual
    return total, _normalised(total, weight, bias)


def _layernorm(total: Array, weight: Array, bias: Array) -> Array:
    result: Array = _scaled(total).astype(total.dtype) * weight + bias
    return result


def _scaled(total: Array) -> Array:
    """Return rows scaled to mean 0 and variance 1, in float64 for float64 inputs, else in float32."""
    wide: Array = total.astype(np.float64 if total.dtype == np.float64 else np.float32)
    wide -= wide.mean(axis=-1, keepdims=True)
    wide *= 1 / np.sqrt(np.square(wide).mean(axis=-1, keepdims=True) + wide.dtype.type(EPSILON))
    return wide
