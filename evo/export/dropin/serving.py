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
        inputs: the caller's tensors in the order of the kernel's arguments; `names`: of the function's arguments.
        results: shape and strides of each output as the caller gets it; strides None: contiguous.
        by_tokens: True if the kernel's memory layout is (B, S, H, D).
        copied: indices of the inputs that are copied into that layout.
        apart: as in `Plan`: the inputs are parts of one tensor.
        integers: indices of inputs of integers, whose dtype need not be that of the others.
        scalars: values of the kernel's scalar arguments.
    """

    function: str
    family: str
    problem: Mapping[str, Any]
    key: Key | None
    inputs: tuple[torch.Tensor, ...]
    names: tuple[str, ...]
    plain: Plain
    results: tuple[tuple[tuple[int, ...], tuple[int, ...] | None], ...]
    by_tokens: bool = False
    copied: tuple[int, ...] = ()
    apart: tuple[int, ...] = ()
    integers: tuple[int, ...] = ()
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
    count = 1 if call.apart else len(call.inputs)
    if (
        not call.scalars.keys() <= kernel.scalars
        or count != len(kernel.inputs)
        or len(call.results) != len(kernel.results)
    ):
        give_up(call.function, call.family, call.problem, "a kernel of other parameters", key=call.key)
        return None
    results = tuple((*seen, dtype) for seen, (_, _, dtype) in zip(call.results, kernel.results, strict=True))
    threads = found.threads if found.device == "cpu" else 0
    plan = Plan(found, kernel, results, threads=threads, copied=call.copied, by_tokens=call.by_tokens, apart=call.apart)
    if (reason := _unaligned(plan, call)) is not None:
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
    read = _read(plan, inputs)  # copies live until the launch
    return plan.kernel.launch([each.data_ptr() for each in read], scalars, read[0].device, plan.results)


def _read(plan: Plan, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """Return what the kernel reads: one address for parts of one tensor, and copies of tensors in another layout."""
    return inputs[:1] if plan.apart else plan.laid_out(inputs)


def _trouble(call: Call) -> str | None:  # noqa: PLR0911 — one reason each
    """Return why no kernel supports such tensors; None if one may."""
    first = call.inputs[0]
    for place, (name, each) in enumerate(zip(call.names, call.inputs, strict=True)):
        if type(each) not in _KINDS:
            return f"{name} is a subclass of Tensor"
        if each.layout is not torch.strided or each.is_nested:
            return f"{name} has no strides"
        if each.device != first.device:
            return f"{name} is on {each.device}, {call.names[0]} on {first.device}"
        if each.dtype != first.dtype and place not in call.integers:
            return f"{name} is of {each.dtype}, {call.names[0]} of {first.dtype}"
        laid_out = each.transpose(1, 2) if call.by_tokens and each.ndim == 4 else each
        if not call.apart and place not in call.copied and not laid_out.is_contiguous():
            return f"{name} is not contiguous in memory"
    if torch.is_autocast_enabled(first.device.type):
        return "autocast is on"
    return None


def _unaligned(plan: Plan, call: Call) -> str | None:
    """Return which of the inputs lies where the kernel cannot load from; None if none does."""
    assert plan.kernel is not None
    read = _read(plan, call.inputs)
    try:
        for name, each, alignment in zip(call.names[: len(read)], read, plan.kernel.alignments, strict=True):
            if each.data_ptr() % alignment:
                return f"{name} lies at an address that is no multiple of {alignment} bytes"
    except RuntimeError:
        return f"{', '.join(call.names)}: tensors without memory of their own"
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
