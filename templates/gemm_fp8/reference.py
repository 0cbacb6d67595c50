"""Inputs, reference, yardstick and baselines for products of E4M3 matrices. Only runners execute this file."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from evo.reference import Array, Arrays
from evo.reference.encoding import decoded, encoded, stored
from evo.reference.library import computing
from evo.reference.pieces import normals
from evo.reference.torch_baselines import torch_on_cpu, torch_on_gpu

E4M3 = "float8_e4m3"
LARGEST = 448.0
HEADROOM = 2**13


def inputs(problem: Mapping[str, Any], distribution: str, rng: np.random.Generator) -> dict[str, Array]:
    """Draw `a` of shape (M, K) and `b` of shape (N, K), and quantise both to E4M3 codes with scales.

    A scale maps the largest magnitude in a row or matrix to 448, the largest E4M3 number. The bias has the standard
    deviation of the products.

    Args:
        distribution: ``normal`` draws N(0, 1). ``offset`` has means other than 0. ``large`` draws N(0, 16) for `a` and
            N(0, 1/16) for `b`. The scales of `a` are then larger than needed, as in static quantisation, so that many
            codes are subnormal. ``unit`` gives N(0, 1) products.
    """
    unit = problem["K"] ** -0.25
    deviations = {"normal": (1.0, 1.0), "offset": (1.0, 1.0), "large": (4.0, 0.25), "unit": (unit, unit)}[distribution]
    means = (0.25, 0.5) if distribution == "offset" else (0.0, 0.0)
    made: dict[str, Array] = {}
    for name, rows, deviation, mean in zip("ab", (problem["M"], problem["N"]), deviations, means, strict=True):
        drawn = normals(rng, (rows, problem["K"])) * np.float32(deviation) + np.float32(mean)
        axis = 1 if problem["scaling"] == "row" else None
        scale = np.abs(drawn).max(axis=axis, keepdims=True) / np.float32(LARGEST)
        if distribution == "large" and name == "a":
            scale *= np.float32(HEADROOM)
        made[name], made[f"{name}_scale"] = encoded(drawn / scale, E4M3), scale.reshape(-1)
    columns = 1 if problem["epilogue"] == "none" else problem["N"]
    spread = math.prod(deviations) * math.sqrt(problem["K"])
    bias = rng.standard_normal(columns, np.float32) * np.float32(spread)
    return {**made, "bias": encoded(bias, problem["out"])}


def reference(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return the expected output, computed in float64 from the codes and scales."""
    return {"c": _product(problem, inputs, np.float64)}


def yardstick(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return the result, computed in float32 and rounded to the output's dtype.

    Kernel errors are compared with the error of this result.
    """
    rounded = encoded(_product(problem, inputs, np.float32), problem["out"])
    return {"c": decoded(rounded, problem["out"])}


def baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """Return CPU baselines by name. The timed calls include the dequantisation."""
    return {"numpy": partial(_with_numpy, problem), "torch": partial(_with_torch, problem)}


def cuda_baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """Return GPU baselines by name.

    ``torch`` and ``torch-fast`` call ``torch._scaled_mm`` (cuBLASLt). ``torch`` accumulates in float32, ``torch-fast``
    with the lower precision of the tensor cores. ``naive`` is the kernel in ``naive.cu``.
    """
    return {
        "torch": partial(_on_torch, problem, False),
        "torch-fast": partial(_on_torch, problem, True),
        "naive": partial(_naive, problem),
    }


def _with_numpy(problem: Mapping[str, Any], inputs: Arrays) -> Callable[[], object]:
    return lambda: {"c": encoded(_product(problem, inputs, np.float32), problem["out"])}


def _with_torch(problem: Mapping[str, Any], inputs: Arrays) -> Callable[[], object]:
    torch = torch_on_cpu()
    tensors = {name: torch.from_numpy(array) for name, array in inputs.items()}
    a, b = (tensors[name].view(torch.float8_e4m3fn) for name in "ab")
    out = getattr(torch, problem["out"])
    activation = _activation(problem)

    def call() -> object:
        product = a.float() @ b.float().t() * tensors["a_scale"][:, None] * tensors["b_scale"]
        if problem["epilogue"] != "none":
            product += tensors["bias"].view(out).float()
        return (product if activation is None else activation(product)).to(out)

    return call


def _activation(problem: Mapping[str, Any]) -> Callable[[Any], Any] | None:
    """Return PyTorch's activation function for the problem's epilogue; None if it has no activation."""
    import torch

    return {"bias_relu": torch.relu, "bias_gelu": torch.nn.functional.gelu}.get(problem["epilogue"])


def _on_torch(problem: Mapping[str, Any], fast: bool, inputs: Arrays) -> Callable[[], object]:
    torch = torch_on_gpu()
    tensors = {name: torch.from_numpy(array).cuda() for name, array in inputs.items()}
    a, b = (tensors[name].view(torch.float8_e4m3fn) for name in "ab")
    a_scale, b_scale = tensors["a_scale"], tensors["b_scale"]
    if problem["scaling"] == "row":
        a_scale, b_scale = a_scale[:, None], b_scale[None, :]
    out = getattr(torch, problem["out"])
    bias = None if problem["epilogue"] == "none" else tensors["bias"].view(out)
    activation = _activation(problem)

    def product() -> Any:
        return torch._scaled_mm(
            a, b.t(), scale_a=a_scale, scale_b=b_scale, bias=bias, out_dtype=out, use_fast_accum=fast
        )

    return product if activation is None else lambda: activation(product())


def _naive(problem: Mapping[str, Any], inputs: Arrays) -> Callable[[], object]:
    import cupy

    macros = {name: problem[name] for name in ("M", "N", "K")}
    macros |= {"BY_ROW": int(problem["scaling"] == "row"), "BFLOATS": int(problem["out"] == "bfloat16")}
    macros |= {"EPILOGUE": f"EPILOGUE_{problem['epilogue']}"}
    source = Path(__file__).with_name("naive.cu").read_text()
    kernel = cupy.RawKernel(source, "product", tuple(f"-D{name}={value}" for name, value in macros.items()))
    given = [cupy.asarray(inputs[name]) for name in ("a", "b", "a_scale", "b_scale", "bias")]
    out = cupy.empty((problem["M"], problem["N"]), stored(problem["out"]))
    blocks = (-(-problem["N"] // 32), -(-problem["M"] // 8))

    def call() -> object:
        kernel(blocks, (32, 8), (*given, out))
        return out

    return call


def _product(problem: Mapping[str, Any], inputs: Arrays, dtype: Any) -> Array:
    with computing(2.0 * problem["M"] * problem["N"] * problem["K"]) as library:
        a, b = (decoded(library.asarray(inputs[name]), E4M3).astype(dtype) for name in "ab")
        a_scale, b_scale = (library.asarray(inputs[f"{name}_scale"]).astype(dtype) for name in "ab")
        product = a @ b.T * a_scale[:, None] * b_scale
        epilogue = problem["epilogue"]
        if epilogue != "none":
            product += decoded(library.asarray(inputs["bias"]), problem["out"]).astype(dtype)
        if epilogue == "bias_relu":
            product = library.maximum(product, 0)
        if epilogue == "bias_gelu":
            special = import_module("scipy.special" if library is np else "cupyx.scipy.special")
            product *= (1 + special.erf(product * product.dtype.type(math.sqrt(0.5)))) * product.dtype.type(0.5)
        result: Array = product if library is np else product.get()
        return result
