"""Inputs, reference, yardstick and baselines for quantisation to E4M3. Only runners execute this file."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from evo.reference import Array, Arrays
from evo.reference.encoding import decoded, encoded
from evo.reference.pieces import normals
from evo.reference.rows import a_column_each
from evo.reference.torch_baselines import torch_baselines, torch_on_cpu

Timed = Callable[[Arrays], Callable[[], object]]

E4M3 = "float8_e4m3"
LARGEST = 448.0
STANDARD_DEVIATION = {"large": 1e4, "small": 1e-2}
OUTLIERS = {"outlier": -60000.0, "outlier-8000": -8000.0, "outlier-1000": -1000.0}


def inputs(problem: Mapping[str, Any], distribution: str, rng: np.random.Generator) -> dict[str, Array]:
    """Draw `x` of shape (B, H, S, D).

    Args:
        distribution: ``normal`` draws N(0, 1). ``offset`` has mean 3. With ``outlier``, the last element of each head
            is so large that nearly all other elements become subnormal E4M3 numbers. With ``outlier-8000``, the other
            elements become numbers below 1/4, and with ``outlier-1000`` below 2. With ``everywhere``, the position of
            the largest element moves from head to head. With ``zeros``, the last head is zero, and the first element of
            each other head is the largest. ``large`` and ``small`` draw numbers whose scales are far from 1.
    """
    shape = tuple(problem[name] for name in ("B", "H", "S", "D"))
    x = normals(rng, shape) * np.float32(STANDARD_DEVIATION.get(distribution, 1.0))
    if distribution == "offset":
        x += 3.0
    if distribution in OUTLIERS:
        x[..., -1, -1] = OUTLIERS[distribution]
    if distribution == "everywhere":
        heads = x.reshape(shape[0] * shape[1], -1)
        heads[range(len(heads)), a_column_each(rng, *heads.shape)] = 40.0
    if distribution == "zeros":
        x[..., 0, 0] = 40.0
        x[-1, -1] = 0.0
    return {"x": encoded(x, problem["dtype"])}


def reference(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return the expected `scale`, and the unrounded numbers `x` / `scale` as the expected `codes`, both in float64."""
    x = decoded(inputs["x"], problem["dtype"]).astype(np.float64)
    scale = np.abs(x).max(axis=(2, 3)) / LARGEST
    return {"codes": _laid_out(problem, x / _divisor(scale)), "scale": scale}


def yardstick(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return `scale`, computed in float32, and `codes`, decoded to the E4M3 numbers that they denote."""
    codes, scale = _quantised(problem, inputs)
    return {"codes": decoded(codes, E4M3), "scale": scale}


def baselines(problem: Mapping[str, Any]) -> dict[str, Timed]:
    """Return CPU baselines by name. A baseline takes the inputs and returns the function whose calls are timed."""
    return {"numpy": partial(_with_numpy, problem), "torch": partial(_with_torch, problem)}


def cuda_baselines(problem: Mapping[str, Any]) -> dict[str, Timed]:
    """Return GPU baselines: PyTorch, eager and compiled, and ``naive``, the kernel of ``naive.cu``."""
    return {
        **torch_baselines(partial(_quantised_by_torch, problem), ("x",), dtype=problem["dtype"]),
        "naive": partial(_naive, problem),
    }


def _quantised(problem: Mapping[str, Any], inputs: Arrays) -> tuple[Array, Array]:
    x = decoded(inputs["x"], problem["dtype"]).astype(np.float32, copy=False)
    scale: Array = np.abs(x).max(axis=(2, 3)) / np.float32(LARGEST)
    return _laid_out(problem, encoded(x / _divisor(scale), E4M3)), scale


def _divisor(scale: Array) -> Array:
    """Return each head's scale in a shape that broadcasts. The scale 0 of a head of zeros is replaced by 1."""
    return np.where(scale > 0, scale, 1).astype(scale.dtype)[..., None, None]


def _laid_out(problem: Mapping[str, Any], array: Array) -> Array:
    return np.ascontiguousarray(array.swapaxes(-1, -2)) if problem["layout"] == "columns" else array


def _with_numpy(problem: Mapping[str, Any], inputs: Arrays) -> Callable[[], object]:
    def call() -> object:
        codes, scale = _quantised(problem, inputs)
        return {"codes": codes, "scale": scale}

    return call


def _quantised_by_torch(problem: Mapping[str, Any], x: Any) -> Any:
    import torch

    scale = x.abs().amax(dim=(2, 3)).float() / LARGEST
    codes = (x.float() / torch.where(scale > 0, scale, 1.0)[..., None, None]).to(torch.float8_e4m3fn)
    return codes.transpose(-1, -2).contiguous() if problem["layout"] == "columns" else codes, scale


def _with_torch(problem: Mapping[str, Any], inputs: Arrays) -> Callable[[], object]:
    torch = torch_on_cpu()
    x = torch.from_numpy(inputs["x"])
    return lambda: _quantised_by_torch(problem, x)


def _naive(problem: Mapping[str, Any], inputs: Arrays) -> Callable[[], object]:
    import cupy

    macros = {"S": problem["S"], "D": problem["D"], "COLUMNS": int(problem["layout"] == "columns")}
    macros["Element"] = {"float32": "float", "float16": "__half", "bfloat16": "__nv_bfloat16"}[problem["dtype"]]
    source = Path(__file__).with_name("naive.cu").read_text()
    kernel = cupy.RawKernel(source, "quantize", tuple(f"-D{name}={value}" for name, value in macros.items()))
    x = cupy.asarray(inputs["x"])
    codes, scale = cupy.empty(x.size, cupy.uint8), cupy.empty(x.shape[:2], cupy.float32)

    def call() -> object:
        kernel((scale.size,), (256,), (x, codes, scale))
        return codes

    return call
