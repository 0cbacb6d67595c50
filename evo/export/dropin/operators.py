"""Operators for torch.compile, registered under names that are unique to this package."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from . import functions
from .serving import dtype_name
from .table import FOLDER, TABLE


def contiguous_like(x: torch.Tensor, *_others: object) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, grouped: bool) -> torch.Tensor:
    out = functions.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)
    return _with_strides_like(q, out)


def _with_strides_like(input: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """Return the output with the strides of ``empty_like(input)``, which the fake implementation declares."""
    if output.stride() == torch.empty_like(input, device="meta").stride():
        return output
    return torch.empty_like(input).copy_(output)


def _rotated(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int
) -> tuple[torch.Tensor, torch.Tensor]:
    turned, other = functions.apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim)
    return _with_strides_like(q, turned), _with_strides_like(k, other)


def _losses(x: torch.Tensor, target: torch.Tensor, ignored: int) -> torch.Tensor:
    return functions.cross_entropy(x, target, ignore_index=ignored, reduction="none").float()


_OPERATORS: Mapping[str, tuple[str, Callable[..., Any], Callable[..., Any]]] = {
    "rms_norm": (
        "(Tensor x, Tensor weight, float eps) -> Tensor",
        lambda x, weight, eps: functions.rms_norm(x, weight.shape, weight, eps).contiguous(),
        contiguous_like,
    ),
    "layer_norm": (
        "(Tensor x, Tensor weight, Tensor bias, float eps) -> Tensor",
        lambda x, weight, bias, eps: functions.layer_norm(x, weight.shape, weight, bias, eps).contiguous(),
        contiguous_like,
    ),
    "softmax": ("(Tensor x) -> Tensor", lambda x: functions.softmax(x, -1).contiguous(), contiguous_like),
    "swiglu": (
        "(Tensor gate, Tensor up) -> Tensor",
        lambda gate, up: functions.swiglu(gate, up).contiguous(),
        contiguous_like,
    ),
    "linear": (
        "(Tensor x, Tensor weight, Tensor? bias) -> Tensor",
        lambda x, weight, bias: functions.linear(x, weight, bias).contiguous(),
        lambda x, weight, bias: x.new_empty((*x.shape[:-1], weight.shape[0])),
    ),
    "attention": (
        "(Tensor q, Tensor k, Tensor v, bool causal, bool grouped) -> Tensor",
        _attention,
        lambda q, k, v, causal, grouped: torch.empty_like(q),
    ),
    "rotary": (
        "(Tensor q, Tensor k, Tensor cos, Tensor sin, int unsqueeze_dim) -> (Tensor, Tensor)",
        _rotated,
        lambda q, k, cos, sin, unsqueeze_dim: (torch.empty_like(q), torch.empty_like(k)),
    ),
    "cross_entropy": (
        "(Tensor x, Tensor target, int ignored) -> Tensor",
        _losses,
        lambda x, target, ignored: x.new_empty(x.shape[:1], dtype=torch.float32),
    ),
}
"""Schema, implementation and fake implementation of each operator. Operators have no gradient, so `traced` returns None
for calls that need gradients.
"""


def _registered() -> dict[str, Any]:
    digest = hashlib.sha256((FOLDER / "kernels.json").read_bytes() + __name__.encode()).hexdigest()[:12]
    made: dict[str, Any] = {}
    for name, (schema, implementation, fake) in _OPERATORS.items():
        made[name] = torch.library.custom_op(
            f"kernel_evo_{digest}::{name}", implementation, mutates_args=(), schema=schema
        )
        made[name].register_fake(fake)
    return made


OPERATORS = _registered()


def traced(name: str, family: str, inputs: Sequence[torch.Tensor], **fields: Any) -> Any:
    """Return the operator for a traced call; None if a gradient is needed or no kernel can compute the call.

    If the result is None, the caller uses PyTorch's own operations, which torch.compile can fuse.

    Args:
        name: name of the operator.
        family: family of the kernels.
        inputs: tensors of the call.
        fields: problem fields that a kernel must have.
    """
    if torch.is_grad_enabled() and any(each.requires_grad for each in inputs):
        return None
    first = inputs[0]
    if torch.is_autocast_enabled(first.device.type):
        return None
    known = TABLE.offers(family, first.device.type, dtype=dtype_name(first.dtype), **fields)
    return OPERATORS[name] if known else None
