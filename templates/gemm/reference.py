"""Inputs, reference, yardstick and baselines for matrix products. Only runners execute this file."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from evo.reference import Array, Arrays
from evo.reference.encoding import decoded, encoded, rounded, stored
from evo.reference.library import LARGE_FLOPS, computing
from evo.reference.rivals import rivals
from evo.reference.rows import normal_rows
from evo.reference.torch_baselines import tensor_of, torch_on_cpu, torch_on_gpu

BETWEEN_ROWS = 1000.0


def inputs(problem: Mapping[str, Any], distribution: str, rng: np.random.Generator) -> dict[str, Array]:
    """Draw `a` of shape (M, K), `b` of shape (K, N) or (N, K), `bias` of shape (N,), and an optional `residual` (M, N).

    A bias that is not used has one element. The matrices of a batch are stacked along the rows. Padding between rows is
    filled with large numbers, so that the output is wrong if a kernel reads the padding.

    Args:
        distribution: name of the distribution of `a` and `b`. ``normal`` draws N(0, 1). ``offset`` has means other than
            0, so that results grow with K. ``large`` draws N(0, 16). ``unit`` gives N(0, 1) products. The bias always
            has the standard deviation of the products, so that a missing bias is detected.
    """
    deviation = {"normal": 1.0, "offset": 1.0, "large": 4.0, "unit": problem["K"] ** -0.25}[distribution]
    means = {"a": 0.25, "b": 0.5} if distribution == "offset" else {"a": 0.0, "b": 0.0}
    batch, rows_of_b = problem.get("batch", 1), (problem["K"], problem["N"])
    shapes = {"a": (problem["M"], problem["K"]), "b": rows_of_b if problem["b_layout"] == "kn" else rows_of_b[::-1]}
    drawn = {}
    for name, (rows, columns) in shapes.items():
        drawn[name] = normal_rows(rng, (batch * rows, columns), means[name], deviation)
        beyond = problem.get(f"{name}_stride", 0) - columns
        if beyond > 0:
            drawn[name] = np.pad(drawn[name], ((0, 0), (0, beyond)), constant_values=BETWEEN_ROWS)
    columns = 1 if problem["epilogue"] == "none" else problem["N"]
    drawn["bias"] = normal_rows(rng, (columns,), 0.0, deviation**2 * math.sqrt(problem["K"]))
    if problem.get("residual"):
        spread = deviation**2 * math.sqrt(problem["K"])
        drawn["residual"] = normal_rows(rng, (batch * problem["M"], problem["N"]), 0.0, spread)
    return {name: encoded(array, problem["dtype"]) for name, array in drawn.items()}


def reference(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return the expected output, computed in float64."""
    return {"c": _product(problem, inputs, np.float64)}


def yardstick(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return the result, computed in float32 and rounded to the output's dtype.

    Kernel errors are compared with the error of this result.
    """
    dtype = problem["dtype"]
    return {"c": rounded(_product(problem, inputs, np.float32), dtype)}


def baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """Return CPU baselines by name. A baseline takes the inputs and returns the function whose calls are timed.

    ``numpy`` computes the plain formula. ``numpy-in-place`` allocates no temporary arrays. Both use NumPy's BLAS.
    ``torch`` uses ``OMP_NUM_THREADS`` threads, or one thread if the variable is not set.
    """

    def with_numpy(inputs: Arrays) -> Callable[[], object]:
        each = _matrices(problem, inputs)
        return lambda: _as_one(problem, _epilogue(np, problem, each["a"] @ each["b"], each))

    def with_numpy_in_place(inputs: Arrays) -> Callable[[], object]:
        each = _matrices(problem, inputs)
        a, b = each["a"], each["b"]
        out = np.empty((*a.shape[:-1], problem["N"]), a.dtype)
        return lambda: _as_one(problem, _epilogue(np, problem, np.matmul(a, b, out=out), each))

    def with_torch(inputs: Arrays) -> Callable[[], object]:
        torch_on_cpu()
        return _with_torch(problem, {name: tensor_of(array, problem["dtype"]) for name, array in inputs.items()})

    return {"numpy": with_numpy, "numpy-in-place": with_numpy_in_place, "torch": with_torch}


def cuda_baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """Return GPU baselines: PyTorch (cuBLAS), and ``naive``, the kernel of ``naive.cu``."""

    def with_torch(inputs: Arrays) -> Callable[[], object]:
        torch_on_gpu()
        return _with_torch(problem, {name: tensor_of(array, problem["dtype"]).cuda() for name, array in inputs.items()})

    return {"torch": with_torch, **rivals("gemm", problem), "naive": partial(_naive, problem)}


def _with_torch(problem: Mapping[str, Any], tensors: Mapping[str, Any]) -> Callable[[], object]:
    """Return a function that applies PyTorch's ``matmul`` (with a bias: ``addmm`` or ``baddbmm``) and the epilogue."""
    import torch

    each = _matrices(problem, tensors)
    a, b, bias = each["a"], each["b"], each["bias"]
    functional, epilogue, residual = torch.nn.functional, problem["epilogue"], each.get("residual")
    add_product = torch.addmm if a.ndim == 2 else torch.baddbmm
    activations: dict[str, Callable[[Any], Any]] = {
        "bias_relu": torch.relu,
        "bias_gelu": functional.gelu,
        "bias_gelu_tanh": partial(functional.gelu, approximate="tanh"),
        "bias_silu": functional.silu,
    }
    activation = activations.get(epilogue)

    def product() -> Any:
        return torch.matmul(a, b) if epilogue == "none" else add_product(bias, a, b)

    def activated() -> Any:
        return product() if activation is None else activation(product())

    def call() -> object:
        return _as_one(problem, activated() if residual is None else activated() + residual)

    return call


def _naive(problem: Mapping[str, Any], inputs: Arrays) -> Callable[[], object]:
    import cupy

    macros = {name: problem[name] for name in ("M", "N", "K")} | {
        "A_ROW": inputs["a"].shape[1],
        "B_ROW": inputs["b"].shape[1],
    }
    macros |= {"BY_COLUMNS": int(problem["b_layout"] == "kn"), "BFLOATS": int(problem["dtype"] == "bfloat16")}
    macros |= {"EPILOGUE": f"EPILOGUE_{problem['epilogue']}"}
    source = Path(__file__).with_name("naive.cu").read_text()
    kernel = cupy.RawKernel(source, "product", tuple(f"-D{name}={value}" for name, value in macros.items()))
    a, b, bias = (cupy.asarray(inputs[name]) for name in ("a", "b", "bias"))
    residual = cupy.asarray(inputs["residual"]) if "residual" in inputs else np.intp(0)
    batch = problem.get("batch", 1)
    out = cupy.empty((batch * problem["M"], problem["N"]), stored(problem["dtype"]))
    blocks = (-(-problem["N"] // 32), -(-problem["M"] // 8), batch)

    def call() -> object:
        kernel(blocks, (32, 8), (a, b, bias, residual, out))
        return out

    return call


def _matrices(problem: Mapping[str, Any], tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Return views of `a` (M, K), `b` (K, N) and the residual (M, N). A batch adds a leading axis."""
    batch, upright = problem.get("batch", 1), problem["b_layout"] == "kn"
    columns = {"a": problem["K"], "b": problem["N"] if upright else problem["K"], "residual": problem["N"]}
    views = dict(tensors)
    for name in columns.keys() & tensors.keys():
        views[name] = tensors[name][:, : columns[name]]
        if batch > 1:
            views[name] = tensors[name].reshape(batch, -1, tensors[name].shape[1])[:, :, : columns[name]]
    return views if upright else views | {"b": views["b"].swapaxes(-1, -2)}


def _as_one(problem: Mapping[str, Any], product: Any) -> Any:
    """Return the products of a batch as one matrix, stacked along the rows."""
    return product.reshape(-1, problem["N"])


def _product(problem: Mapping[str, Any], inputs: Arrays, dtype: Any) -> Array:
    flops = 2.0 * problem.get("batch", 1) * problem["M"] * problem["N"] * problem["K"]
    on_cores = problem["dtype"] == "float32"  # 16-bit problems are searched only on GPUs
    elements = 0 if on_cores else sum(array.size for array in inputs.values())
    with computing(flops, large=math.inf if on_cores else LARGE_FLOPS, elements=elements) as library:
        codes = {name: library.asarray(array) for name, array in _matrices(problem, inputs).items()}
        numbers = {name: decoded(array, problem["dtype"]).astype(dtype) for name, array in codes.items()}
        result: Array = _epilogue(library, problem, numbers["a"] @ numbers["b"], numbers)
        result = _as_one(problem, result)
        return result if library is np else result.get()  # type: ignore[attr-defined]


def _epilogue(library: Any, problem: Mapping[str, Any], product: Any, terms: Mapping[str, Any]) -> Any:
    """Add the bias, apply the activation and add the residual, in place, with NumPy or CuPy."""
    epilogue = problem["epilogue"]
    if epilogue != "none":
        product += terms["bias"]
    if epilogue == "bias_relu":
        library.maximum(product, 0, out=product)
    if epilogue == "bias_gelu":
        special = import_module("scipy.special" if library is np else "cupyx.scipy.special")
        product *= (1 + special.erf(product * product.dtype.type(math.sqrt(0.5)))) * product.dtype.type(0.5)
    if epilogue == "bias_gelu_tanh":
        product *= _sigmoid(library, product * (2 * math.sqrt(2 / math.pi) * (1 + 0.044715 * product * product)))
    if epilogue == "bias_silu":
        product *= _sigmoid(library, product)
    if problem.get("residual"):
        product += terms["residual"]
    return product


def _sigmoid(library: Any, x: Any) -> Any:
    """Return 1 / (1 + exp(-x)), computed from exp(-|x|), which does not overflow."""
    decay = library.exp(-library.abs(x))
    return library.where(x < 0, decay, 1) / (1 + decay)
