"""Operators for torch.compile, registered under names that are unique to this package."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .serving import dtype_name
from .table import FOLDER, TABLE

OPERATORS: dict[str, Any] = {}
"""Registered operators by name."""

_NAMESPACE = "kernel_evo_" + hashlib.sha256((FOLDER / "kernels.json").read_bytes() + __name__.encode()).hexdigest()[:12]


def register(name: str, schema: str, implementation: Callable[..., Any], fake: Callable[..., Any]) -> None:
    """Register an operator that torch.compile calls without tracing it.

    The operator has no gradient, so `traced` returns None for calls that need gradients.

    Args:
        schema: the operator's arguments and results in PyTorch's schema language, without its name.
        implementation: computes the results.
        fake: returns tensors with the shapes, strides and dtypes of the results, without computing them.
    """
    operator = torch.library.custom_op(f"{_NAMESPACE}::{name}", implementation, mutates_args=(), schema=schema)
    operator.register_fake(fake)
    OPERATORS[name] = operator


def contiguous_like(x: torch.Tensor, *_others: object) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def with_strides_like(input: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """Return the output with the strides of ``empty_like(input)``, which the fake implementation declares."""
    if output.stride() == torch.empty_like(input, device="meta").stride():
        return output
    return torch.empty_like(input).copy_(output)


def traced(name: str, family: str, inputs: Sequence[torch.Tensor], **fields: Any) -> Any:
    """Return the operator for a traced call; None if PyTorch must compute the call.

    PyTorch must compute the call if a gradient is needed, autocast is enabled, or no kernel has the given problem
    fields. The caller then uses PyTorch's own operations, which torch.compile can fuse.

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
