"""Functions that compute row by row: softmax, SwiGLU and cross entropy."""

from collections.abc import Sequence
from functools import partial

import torch
from torch.nn import functional as nnf

from . import operators
from .serving import Call, Operation, Terms, Unserved, compiling, rows_problem


def softmax(
    input: torch.Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """Return softmax over a dimension, like `torch.nn.functional.softmax`. Kernels support only the last dimension."""
    if compiling():
        op = None
        if not _is_not_last(input, dim) and dtype in (None, input.dtype):
            op = operators.traced("softmax", "softmax", (input,), cols=input.shape[-1])
        return nnf.softmax(input, dim, _stacklevel, dtype) if op is None else op(input)
    found = _SOFTMAX.outputs((input,), (dim, dtype))
    return nnf.softmax(input, dim, _stacklevel, dtype) if found is None else found[0]


def _is_not_last(input: torch.Tensor, dim: int | None) -> bool:
    rank = input.ndim
    return dim is None or rank == 0 or not -rank <= dim < rank or dim % rank != rank - 1


def _softmax_call(inputs: tuple[torch.Tensor], terms: Terms) -> Call | Unserved:
    (input,), (dim, dtype) = inputs, terms
    if _is_not_last(input, dim) or dtype not in (None, input.dtype):
        return Unserved({"dim": str(dim)}, "dim is not the last dimension, or dtype differs from that of the input")
    return _row_call(input)


_SOFTMAX = Operation(
    name="softmax",
    arguments=("input",),
    family="softmax",
    plain=lambda _, input: nnf.softmax(input, -1),
    describe=_softmax_call,
)


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Return ``torch.nn.functional.silu(gate) * up``, for tensors of the same shape."""
    if compiling():
        op = None
        if gate.shape == up.shape and gate.ndim:
            op = operators.traced("swiglu", "swiglu", (gate, up), cols=gate.shape[-1])
        return nnf.silu(gate) * up if op is None else op(gate, up)
    found = _SWIGLU.outputs((gate, up))
    return nnf.silu(gate) * up if found is None else found[0]


def _swiglu_call(inputs: tuple[torch.Tensor, torch.Tensor], _: Terms) -> Call | Unserved:
    gate, up = inputs
    if gate.shape != up.shape or not gate.ndim:
        return Unserved({"shape": str(tuple(gate.shape))}, "gate and up have different shapes, or no dimensions")
    return _row_call(gate)


def _row_call(input: torch.Tensor) -> Call:
    return Call(problem=rows_problem(input, input.shape[-1]), results=((tuple(input.shape), None),))


_SWIGLU = Operation(
    name="swiglu",
    arguments=("gate", "up"),
    family="swiglu",
    plain=lambda _, gate, up: nnf.silu(gate) * up,
    describe=_swiglu_call,
)


def cross_entropy(  # noqa: PLR0917 — the signature is PyTorch's
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> torch.Tensor:
    """Return the cross entropy of rows of logits, like `torch.nn.functional.cross_entropy`.

    Kernels support only int64 class numbers as targets, and neither class weights nor label smoothing. If gradients are
    needed, PyTorch also computes the forward pass, because computing it twice would cost more than a kernel saves.
    """
    inputs = (input, target) if weight is None else (input, target, weight)
    terms = (size_average, ignore_index, reduce, reduction, label_smoothing)
    found: Sequence[torch.Tensor] | None = None
    if compiling():
        if _unsupported_reason(inputs, terms) is None:
            op = operators.traced("cross_entropy", "cross_entropy", inputs, cols=input.shape[1])
            found = None if op is None else (op(input, target, ignore_index),)
    elif not (torch.is_grad_enabled() and input.requires_grad):
        found = _CROSS_ENTROPY.outputs(inputs, terms)
    if found is None:
        return nnf.cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)
    losses = found[0]
    if reduction == "mean":
        losses = losses.sum() / (target != ignore_index).sum()
    elif reduction == "sum":
        losses = losses.sum()
    return losses.to(input.dtype)


def _cross_entropy_call(inputs: tuple[torch.Tensor, ...], terms: Terms) -> Call | Unserved:
    input = inputs[0]
    if (reason := _unsupported_reason(inputs, terms)) is not None:
        return Unserved({"input": str(tuple(input.shape))}, reason)
    return Call(
        problem=rows_problem(input, input.shape[1]),
        results=(((input.shape[0],), None),) * 2,
        convert={1: partial(_classes, cols=input.shape[1], ignored=terms[1])},
        integers=(1,),
    )


def _unsupported_reason(inputs: tuple[torch.Tensor, ...], terms: Terms) -> str | None:
    """Return the reason why no kernel can compute this cross_entropy call; None if a kernel may compute it."""
    input, target, *weight = inputs
    size_average, ignored, reduce, reduction, smoothing = terms
    if weight or smoothing:
        return "it has class weights or label smoothing"
    if input.ndim != 2 or target.shape != input.shape[:1] or target.dtype != torch.int64:
        return "input is not a matrix, or target does not contain one class number per row"
    if 0 <= ignored < input.shape[1]:
        return "ignore_index is a class number of input"
    if size_average is not None or reduce is not None or reduction not in {"none", "mean", "sum"}:
        return "it has size_average or reduce, which PyTorch has deprecated, or an unknown reduction"
    return None


def _classes(numbers: torch.Tensor, *, cols: int, ignored: int) -> torch.Tensor:
    """Return the targets as int32. The kernel ignores targets that are not a class.

    On a GPU, the targets are not checked, because the host would have to wait for them.

    Raises:
        IndexError: on a CPU, a target is neither a class nor ignored, as in PyTorch.
    """
    if numbers.device.type == "cpu":
        wrong = ((numbers < 0) | (numbers >= cols)) & (numbers != ignored)
        if wrong.any():
            raise IndexError(f"target contains {int(numbers[wrong][0])}, but input has {cols} classes")
    return numbers.to(torch.int32)


_CROSS_ENTROPY = Operation(
    name="cross_entropy",
    arguments=("input", "target", "weight"),
    family="cross_entropy",
    plain=lambda terms, input, target: nnf.cross_entropy(input, target, ignore_index=terms[1], reduction="none"),
    describe=_cross_entropy_call,
)


def _losses(x: torch.Tensor, target: torch.Tensor, ignored: int) -> torch.Tensor:
    return cross_entropy(x, target, ignore_index=ignored, reduction="none").float()


operators.register("softmax", "(Tensor x) -> Tensor", lambda x: softmax(x, -1).contiguous(), operators.contiguous_like)
operators.register(
    "swiglu",
    "(Tensor gate, Tensor up) -> Tensor",
    lambda gate, up: swiglu(gate, up).contiguous(),
    operators.contiguous_like,
)
operators.register(
    "cross_entropy",
    "(Tensor x, Tensor target, int ignored) -> Tensor",
    _losses,
    lambda x, target, ignored: x.new_empty(x.shape[:1], dtype=torch.float32),
)
