"""Serves a call without a plan: by a kernel if one fits, else by PyTorch, and stores the decision."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from .plans import PLANS, Key, Plan
from .table import TABLE, Entry, Fallback

Plain = Callable[..., Any]
"""Does the same computation by PyTorch, on the inputs of the kernel."""

_KINDS = (torch.Tensor, torch.nn.Parameter)


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of a function of this package.

    Attributes:
        key: key of its plan; None: the decision is not stored.
        inputs: the caller's tensors in the order of the kernel's arguments.
        shape, strides: shape and strides of every output as the caller gets it; strides None: contiguous.
        by_tokens: True if the kernel's memory layout is (B, S, H, D).
        copied: indices of the inputs that are copied into that layout.
        scalars: values of the kernel's scalar arguments.
    """

    function: str
    family: str
    problem: Mapping[str, Any]
    key: Key | None
    inputs: tuple[torch.Tensor, ...]
    plain: Plain
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    by_tokens: bool = False
    copied: tuple[int, ...] = ()
    scalars: Mapping[str, float] = field(default_factory=dict)


def serve(call: Call) -> tuple[torch.Tensor, ...] | None:
    """Return the outputs of a kernel; if PyTorch must serve the call, count it and return None.

    Raises:
        LookupError: no kernel serves it, and `strict` is set.
    """
    if (reason := _trouble(call)) is not None:
        give_up(call.function, call.family, call.problem, reason, key=call.key)
        return None
    found = TABLE.find(call.function, call.family, call.inputs[0].device, call.problem)
    if isinstance(found, Fallback):
        # the number of threads may change between calls, all else is part of the key
        passing = found.reason.startswith("searched for ")
        _counted(found, None if passing else call.key)
        return None
    kernel = found.kernel
    assert kernel is not None
    if not call.scalars.keys() <= kernel.scalars or len(call.inputs) != len(kernel.inputs):
        give_up(call.function, call.family, call.problem, "a kernel of other parameters", key=call.key)
        return None
    results = tuple((call.shape, call.strides, dtype) for _, _, dtype in kernel.results)
    threads = found.threads if found.device == "cpu" else 0
    plan = Plan(found, kernel, results, threads=threads, copied=call.copied, by_tokens=call.by_tokens)
    if (reason := _unaligned(plan.laid_out(call.inputs), kernel.alignments)) is not None:
        give_up(call.function, call.family, call.problem, reason)
        return None
    if torch.is_grad_enabled() and any(each.requires_grad for each in call.inputs):
        outputs = _Differentiable.apply(plan, call.scalars, call.plain, *call.inputs)
        return outputs if isinstance(outputs, tuple) else (outputs,)
    PLANS.keep(call.key, plan)
    return tuple(_launched(plan, call.inputs, call.scalars))


def give_up(function: str, family: str, problem: Mapping[str, Any], reason: str, *, key: Key | None = None) -> None:
    """Count a call that PyTorch serves.

    Args:
        key: key of calls with the same decision; None: the next call is examined again.

    Raises:
        LookupError: `strict` is set.
    """
    _counted(TABLE.fallback(function, family, problem, reason), key)


def _counted(found: Fallback, key: Key | None) -> None:
    found.calls += 1
    PLANS.keep(key, Plan(count=found))


def _launched(plan: Plan, inputs: tuple[torch.Tensor, ...], scalars: Mapping[str, float]) -> list[torch.Tensor]:
    assert plan.kernel is not None and isinstance(plan.count, Entry)
    plan.counted()
    inputs = plan.laid_out(inputs)
    return plan.kernel.launch([each.data_ptr() for each in inputs], scalars, inputs[0].device, plan.results)


def _trouble(call: Call) -> str | None:
    """Return why no kernel supports such tensors; None if one may."""
    first = call.inputs[0]
    for place, each in enumerate(call.inputs):
        if type(each) not in _KINDS:
            return "a subclass of Tensor"
        if each.layout is not torch.strided or each.is_nested:
            return "tensors without strides"
        if each.device != first.device or each.dtype != first.dtype:
            return "tensors of several devices or dtypes"
        if place not in call.copied and not (each.transpose(1, 2) if call.by_tokens else each).is_contiguous():
            return "not contiguous in memory"
    if torch.is_autocast_enabled(first.device.type):
        return "autocast is on"
    return None


def _unaligned(inputs: tuple[torch.Tensor, ...], alignments: list[int]) -> str | None:
    try:
        for each, alignment in zip(inputs, alignments, strict=True):
            if each.data_ptr() % alignment:
                return f"an address that is no multiple of {alignment} bytes"
    except RuntimeError:
        return "tensors without memory of their own"
    return None


class _Differentiable(torch.autograd.Function):  # type: ignore[misc]
    """Runs a kernel in the forward pass; the backward pass repeats the call with PyTorch and its gradient."""

    @staticmethod
    def forward(ctx: Any, plan: Plan, scalars: Mapping[str, float], plain: Plain, *inputs: torch.Tensor) -> Any:
        ctx.plain = plain
        ctx.save_for_backward(*inputs)
        outputs = _launched(plan, inputs, scalars)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        inputs = [each.detach().requires_grad_(each.requires_grad) for each in ctx.saved_tensors]
        with torch.enable_grad():
            outputs = ctx.plain(*inputs)
        wanted = [each for each in inputs if each.requires_grad]
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        found = iter(torch.autograd.grad(outputs, wanted, gradients, allow_unused=True))
        return (None, None, None, *(next(found) if each.requires_grad else None for each in inputs))
