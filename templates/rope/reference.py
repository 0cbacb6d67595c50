"""Inputs, reference, yardstick and baselines for rotary position embedding. Only runners execute this file."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from evo.reference import Array, Arrays
from evo.reference.encoding import decoded, encoded, rounded
from evo.reference.pieces import normals
from evo.reference.torch_baselines import on_cpu, torch_baselines

MEAN_AND_DEVIATION = {"normal": (0.0, 1.0), "offset": (3.0, 1.0), "small": (0.0, 1e-2)}
BASE = 10000.0
"""Base of the wavelengths, as in the first models that used the embedding (Su et al., arXiv:2104.09864)."""

POSITIONS = 8192
NAMES = ("q", "k", "cos", "sin")


def inputs(problem: Mapping[str, Any], distribution: str, rng: np.random.Generator) -> dict[str, Array]:
    """Draw `q` (B, H, S, D), `k` (B, KV, S, D), and tables `cos` and `sin` (S, D) of random positions.

    With the layout ``bshd``, the axes of heads and tokens of `q` and `k` are swapped.

    Args:
        distribution: ``normal`` draws N(0, 1). ``offset`` has a mean other than 0. ``small`` draws N(0, 1) divided by
            100.
    """
    mean, deviation = MEAN_AND_DEVIATION[distribution]
    positions = np.sort(rng.integers(0, POSITIONS, size=problem["S"]))
    half = problem["D"] // 2
    angles = positions[:, None] * BASE ** -(np.arange(half) / half)
    tables = {"cos": np.tile(np.cos(angles), 2), "sin": np.tile(np.sin(angles), 2)}
    drawn = {name: normals(rng, _shape(problem, name)) * deviation + mean for name in ("q", "k")}
    return {name: encoded(array.astype(np.float32), problem["dtype"]) for name, array in {**drawn, **tables}.items()}


def reference(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return the expected outputs `q_out` and `k_out`, computed in float64."""
    return _turned(problem, {name: decoded(each, problem["dtype"]).astype(np.float64) for name, each in inputs.items()})


def yardstick(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return the results, computed in float32, with products and results rounded to the inputs' dtype.

    Kernel errors are compared with the errors of these results.
    """
    dtype = problem["dtype"]
    numbers = {name: decoded(each, dtype).astype(np.float32) for name, each in inputs.items()}
    return _turned(problem, numbers, partial(rounded, dtype=dtype))


def baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """Return CPU baselines by name. A baseline takes the inputs and returns the function whose calls are timed.

    ``numpy`` computes the plain formula. ``torch`` uses the formula of Hugging Face Transformers, on
    ``OMP_NUM_THREADS`` threads, or on one thread if the variable is not set.
    """

    with_torch = partial(on_cpu, _of_torch(problem), NAMES, problem["dtype"])
    return {"numpy": lambda inputs: partial(yardstick, problem, inputs), "torch": with_torch}


def cuda_baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """Return GPU baselines: the formula of Hugging Face Transformers in PyTorch, eager and compiled."""
    return torch_baselines(_of_torch(problem), NAMES, dtype=problem["dtype"])


def _of_torch(problem: Mapping[str, Any]) -> Callable[..., object]:
    head_axis = 2 if problem["layout"] == "bshd" else 1

    def turned(x: Any, cos: Any, sin: Any) -> Any:
        import torch

        low, high = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-high, low), dim=-1) * sin

    def call(q: Any, k: Any, cos: Any, sin: Any) -> object:
        cos, sin = (each.unsqueeze(head_axis - 1) for each in (cos, sin))
        return turned(q, cos, sin), turned(k, cos, sin)

    return call


def _turned(
    problem: Mapping[str, Any], numbers: Arrays, rounded: Callable[[Array], Array] = lambda values: values
) -> dict[str, Array]:
    head_axis = 1 if problem["layout"] == "bshd" else 0  # index without the batch axis
    cos, sin = (np.expand_dims(numbers[name], head_axis) for name in ("cos", "sin"))

    def turned(x: Array) -> Array:
        low, high = np.split(x, 2, axis=-1)
        return rounded(rounded(x * cos) + rounded(np.concatenate((-high, low), axis=-1) * sin))

    return {f"{name}_out": np.stack([turned(entry) for entry in numbers[name]]) for name in ("q", "k")}


def _shape(problem: Mapping[str, Any], name: str) -> tuple[int, ...]:
    heads = problem["H"] if name == "q" else problem["KV"] or problem["H"]
    tokens = (problem["S"], heads) if problem["layout"] == "bshd" else (heads, problem["S"])
    return (problem["B"], *tokens, problem["D"])
