"""RMSNorm and LayerNorm, optionally after adding a residual."""

from collections.abc import Sequence

import torch
from torch.nn import functional as nnf

from . import operators
from .serving import Call, Operation, Terms, Unserved, compiling, rows_problem


def rms_norm(
    input: torch.Tensor, normalized_shape: Sequence[int], weight: torch.Tensor | None = None, eps: float | None = None
) -> torch.Tensor:
    """Return RMSNorm over the dimensions `normalized_shape`, like `torch.nn.functional.rms_norm`.

    Kernels support only calls with a weight that normalize the last dimension alone.
    """
    if compiling():
        return _traced_rms_norm(input, normalized_shape, weight, eps)
    found = _RMS_NORM.outputs((input, weight), (tuple(normalized_shape), eps))
    return nnf.rms_norm(input, normalized_shape, weight, eps) if found is None else found[0]


def _rms_norm_call(inputs: tuple[torch.Tensor, torch.Tensor | None], terms: Terms) -> Call | Unserved:
    (input, weight), (shape, eps) = inputs, terms
    if weight is None or len(shape) != 1:
        return Unserved({"cols": shape[-1] if shape else 0}, "it has no weight, or more than one normalized dimension")
    return _norm_call(input, shape[0], _epsilon(input, eps), weight=weight)


_RMS_NORM = Operation(
    name="rms_norm",
    arguments=("input", "weight"),
    family="rmsnorm",
    plain=lambda terms, input, weight: nnf.rms_norm(input, terms[0], weight, terms[1]),
    describe=_rms_norm_call,
)


def _traced_rms_norm(
    input: torch.Tensor, normalized_shape: Sequence[int], weight: torch.Tensor | None, eps: float | None
) -> torch.Tensor:
    if (
        weight is not None
        and len(normalized_shape) == 1
        and _wrong_length(input, normalized_shape[0], weight=weight) is None
    ):
        op = operators.traced("rms_norm", "rmsnorm", (input, weight), cols=normalized_shape[0])
        if op is not None:
            return op(input, weight, _epsilon(input, eps))
    return nnf.rms_norm(input, normalized_shape, weight, eps)


def add_rms_norm(
    input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return input + residual, and its RMSNorm over the last dimension."""
    return _added(_ADD_RMS_NORM, (input, residual, weight), eps)


def layer_norm(
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    """Return LayerNorm over the dimensions `normalized_shape`, like `torch.nn.functional.layer_norm`.

    Kernels support only calls with a weight and a bias that normalize the last dimension alone.
    """
    if compiling():
        return _traced_layer_norm(input, normalized_shape, weight, bias, eps)
    found = _LAYER_NORM.outputs((input, weight, bias), (tuple(normalized_shape), eps))
    return nnf.layer_norm(input, normalized_shape, weight, bias, eps) if found is None else found[0]


def _layer_norm_call(inputs: tuple[torch.Tensor, ...], terms: Terms) -> Call | Unserved:
    (input, weight, bias), (shape, eps) = inputs, terms
    if weight is None or bias is None or len(shape) != 1:
        return Unserved(
            {"cols": shape[-1] if shape else 0}, "it has no weight, no bias, or more than one normalized dimension"
        )
    return _norm_call(input, shape[0], eps, weight=weight, bias=bias)


_LAYER_NORM = Operation(
    name="layer_norm",
    arguments=("input", "weight", "bias"),
    family="layernorm",
    plain=lambda terms, input, weight, bias: nnf.layer_norm(input, terms[0], weight, bias, terms[1]),
    describe=_layer_norm_call,
)


def _traced_layer_norm(
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
) -> torch.Tensor:
    weights = {"weight": weight, "bias": bias}
    if len(normalized_shape) == 1 and _wrong_length(input, normalized_shape[0], **weights) is None:
        op = operators.traced("layer_norm", "layernorm", (input, weight, bias), cols=normalized_shape[0])
        if op is not None:
            return op(input, weight, bias, eps)
    return nnf.layer_norm(input, normalized_shape, weight, bias, eps)


def add_layer_norm(
    input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return input + residual, and its LayerNorm over the last dimension."""
    return _added(_ADD_LAYER_NORM, (input, residual, weight, bias), eps)


def _added(operation: Operation, inputs: tuple[torch.Tensor, ...], eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    found = None if compiling() else operation.outputs(inputs, (eps,))
    total, out = operation.plain((eps,), *inputs) if found is None else found
    return total, out


def _added_by_torch(
    terms: Terms, input: torch.Tensor, residual: torch.Tensor, *weights: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    total, norm = input + residual, nnf.rms_norm if len(weights) == 1 else nnf.layer_norm
    return total, norm(total, [weights[0].numel()], *weights, *terms)


def _added_call(inputs: tuple[torch.Tensor, ...], terms: Terms) -> Call | Unserved:
    input, residual, weight = inputs[:3]
    if input.shape != residual.shape:
        return Unserved({"cols": weight.numel()}, "input and residual have different shapes")
    weights = dict(zip(("weight", "bias"), inputs[2:], strict=False))
    return _norm_call(input, weight.numel(), terms[0], residual=True, **weights)


def _wrong_length(input: torch.Tensor, cols: int, **weights: torch.Tensor | None) -> str | None:
    """Return an error text if a weight is missing, or if the last dimension of a tensor is not `cols` long.

    The result is None if all tensors match.
    """
    if not input.ndim or input.shape[-1] != cols:
        return f"input has shape {tuple(input.shape)}, not (…, {cols})"
    for name, each in weights.items():
        if each is None:
            return f"no {name}"
        if each.shape != (cols,):
            return f"{name} has shape {tuple(each.shape)}, not {(cols,)}"
    return None


def _norm_call(
    input: torch.Tensor, cols: int, eps: float, *, residual: bool = False, **weights: torch.Tensor
) -> Call | Unserved:
    if (reason := _wrong_length(input, cols, **weights)) is not None:
        return Unserved({"cols": cols}, reason)
    return Call(
        problem=rows_problem(input, cols) | {"residual": residual},
        results=((tuple(input.shape), None),) * (2 if residual else 1),
        scalars={"epsilon": eps},
    )


_ADD_RMS_NORM = Operation(
    name="add_rms_norm",
    arguments=("input", "residual", "weight"),
    family="rmsnorm",
    plain=_added_by_torch,
    describe=_added_call,
)
_ADD_LAYER_NORM = Operation(
    name="add_layer_norm",
    arguments=("input", "residual", "weight", "bias"),
    family="layernorm",
    plain=_added_by_torch,
    describe=_added_call,
)


def _epsilon(input: torch.Tensor, given: float | None) -> float:
    return torch.finfo(input.dtype).eps if given is None else given


operators.register(
    "rms_norm",
    "(Tensor x, Tensor weight, float eps) -> Tensor",
    lambda x, weight, eps: rms_norm(x, weight.shape, weight, eps).contiguous(),
    operators.contiguous_like,
)
operators.register(
    "layer_norm",
    "(Tensor x, Tensor weight, Tensor bias, float eps) -> Tensor",
    lambda x, weight, bias, eps: layer_norm(x, weight.shape, weight, bias, eps).contiguous(),
    operators.contiguous_like,
)
