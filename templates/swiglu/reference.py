"""Inputs, reference, yardstick and baselines for SwiGLU: SiLU(gate) times up. Only runners execute this file."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from evo.reference import Array, Arrays
from evo.reference.encoding import decoded, encoded, rounded
from evo.reference.rivals import rivals
from evo.reference.rows import by_rows, normal_rows
from evo.reference.torch_baselines import on_cpu, torch_baselines

MEAN_AND_DEVIATION = {"normal": (0.0, 1.0), "offset": (3.0, 1.0), "large": (0.0, 40.0), "small": (0.0, 1e-2)}


def inputs(problem: Mapping[str, Any], distribution: str, rng: np.random.Generator) -> dict[str, Array]:
    """Draw `gate` and `up`, both of shape (rows, cols).

    Args:
        distribution: ``normal`` draws N(0, 1). ``offset`` gives sigmoids of `gate` near 1. ``large`` gives sigmoids
            near 0 or 1, with exponentials that overflow float16. ``small`` gives sigmoids near 1/2.
    """
    mean, deviation = MEAN_AND_DEVIATION[distribution]
    shape = (problem["rows"], problem["cols"])
    return {name: encoded(normal_rows(rng, shape, mean, deviation), problem["dtype"]) for name in ("gate", "up")}


@by_rows
def reference(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return the expected output, computed in float64."""
    gate, up = (decoded(inputs[name], problem["dtype"]).astype(np.float64) for name in ("gate", "up"))
    return {"out": _silu(gate) * up}


@by_rows
def yardstick(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return the result, computed in float32. SiLU(gate) and the product are rounded to the inputs' dtype.

    Kernel errors are compared with the error of this result.
    """
    dtype = problem["dtype"]
    gate, up = (decoded(inputs[name], dtype).astype(np.float32) for name in ("gate", "up"))
    return {"out": rounded(rounded(_silu(gate), dtype) * up, dtype)}


def baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """Return CPU baselines by name. A baseline takes the inputs and returns the function whose calls are timed.

    ``numpy`` computes the plain formula. ``numpy-in-place`` writes to preallocated arrays. ``torch`` uses
    ``OMP_NUM_THREADS`` threads, or one thread if the variable is not set.
    """

    def with_numpy(inputs: Arrays) -> Callable[[], object]:
        return partial(yardstick, problem, inputs)

    def with_numpy_in_place(inputs: Arrays) -> Callable[[], object]:
        gate, up, out = inputs["gate"], inputs["up"], np.empty_like(inputs["gate"])

        def call() -> object:
            np.negative(gate, out=out)
            np.exp(out, out=out)
            np.add(out, np.float32(1), out=out)
            np.divide(gate, out, out=out)
            return np.multiply(out, up, out=out)

        return call

    with_torch = partial(on_cpu, _gated, ("gate", "up"), problem["dtype"])
    if problem["dtype"] == "bfloat16":
        return {"numpy": with_numpy, "torch": with_torch}
    return {"numpy": with_numpy, "numpy-in-place": with_numpy_in_place, "torch": with_torch}


def cuda_baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """Return GPU baselines: PyTorch's SiLU times up, eager and compiled, and (not for bfloat16) ``naive`` in CuPy."""

    def naive(inputs: Arrays) -> Callable[[], object]:
        import cupy

        gate, up = (cupy.asarray(inputs[name]) for name in ("gate", "up"))
        return lambda: gate / (1 + cupy.exp(-gate)) * up

    offered = torch_baselines(_gated, ("gate", "up"), dtype=problem["dtype"])
    offered |= rivals("swiglu", problem)
    return offered if problem["dtype"] == "bfloat16" else {**offered, "naive": naive}


def _gated(gate: Any, up: Any) -> object:
    import torch

    return torch.nn.functional.silu(gate) * up


def _silu(gate: Array) -> Array:
    """Return gate / (1 + exp(-gate)), computed from exp(-|gate|), which does not overflow."""
    decay = np.exp(-np.abs(gate))
    result: Array = gate * np.where(gate < 0, decay, 1) / (1 + decay)
    return result
