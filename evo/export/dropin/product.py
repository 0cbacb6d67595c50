"""Linear layer: the product with a transposed weight."""

import torch
from torch.nn import functional as nnf

from . import operators
from .serving import Call, Operation, Terms, Unserved, compiling, dtype_name


def linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Return the product of the input and the transposed weight, plus the bias, like `torch.nn.functional.linear`."""
    inputs = (input, weight) if bias is None else (input, weight, bias)
    if compiling():
        op = None
        if weight.ndim == 2:
            op = operators.traced("linear", "gemm", inputs, N=weight.shape[0], K=weight.shape[1])
        return nnf.linear(input, weight, bias) if op is None else op(input, weight, bias)
    found = _LINEAR.outputs(inputs)
    return nnf.linear(input, weight, bias) if found is None else found[0]


def _linear_call(inputs: tuple[torch.Tensor, ...], _: Terms) -> Call | Unserved:
    input, weight, *bias = inputs
    if weight.ndim != 2 or input.ndim == 0:
        return Unserved({"dimensions": weight.ndim}, "the weight is not a matrix")
    n, k = weight.shape
    if input.shape[-1] != k or any(each.shape != (n,) for each in bias):
        return Unserved({"N": n, "K": k}, "the shape of the input or the bias does not match the weight")
    problem = {"M": input.numel() // k if k else 0, "N": n, "K": k, "b_layout": "nk", "dtype": dtype_name(input.dtype)}
    return Call(
        problem=problem | {"epilogue": "bias" if bias else "none"},
        results=(((*input.shape[:-1], n), None),),
        unread=() if bias else (_unread_bias(input),),
    )


_LINEAR = Operation(
    name="linear",
    arguments=("input", "weight", "bias"),
    family="gemm",
    plain=lambda _, *inputs: nnf.linear(*inputs),
    describe=_linear_call,
)


def _unread_bias(like: torch.Tensor) -> torch.Tensor:
    """Return a tensor that can be passed as bias to a kernel that does not read its bias."""
    key = (like.device, like.dtype)
    found = _NOTHING.get(key)
    if found is None:
        found = _NOTHING[key] = torch.zeros(1, dtype=like.dtype, device=like.device)
    return found


_NOTHING: dict[tuple[torch.device, torch.dtype], torch.Tensor] = {}

operators.register(
    "linear",
    "(Tensor x, Tensor weight, Tensor? bias) -> Tensor",
    lambda x, weight, bias: linear(x, weight, bias).contiguous(),
    lambda x, weight, bias: x.new_empty((*x.shape[:-1], weight.shape[0])),
)
