"""Decides whether a kernel or PyTorch computes a call that has no plan, and stores the decision as a plan."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .plans import PLANS, Convert, Key, Plan, keep, key_of
from .table import MORE_THREADS, TABLE, Entry, Fallback

compiling = torch.compiler.is_compiling
_KINDS = (torch.Tensor, torch.nn.Parameter)


@dataclass(frozen=True, kw_only=True)
class Call:
    """Requirements that a kernel must meet to compute a call.

    Attributes:
        problem: problem for which the kernel must be compiled.
        results: shape and strides of each output that the caller gets. The strides are None for a contiguous output.
        family: family of the kernel; None for the family of the operation.
        by_tokens: True if the kernel must read and write the memory layout (B, S, H, D).
        convert: functions that convert inputs which the kernel cannot read directly, by the index of the input.
        copies: True if the conversions are copies to the kernel's layout, which the report counts.
        offsets: byte offset of each input from the first one, if the inputs are views of one tensor that the kernel
            reads as a whole; else empty.
        integers: indices of integer inputs, whose dtype may differ from that of the other inputs.
        scalars: values of the kernel's scalar arguments.
        unread: tensors that are passed after the inputs, but that the kernel does not read.
        kept: False if the decision is valid for this call only and must not be stored.
    """

    problem: Mapping[str, Any]
    results: tuple[tuple[tuple[int, ...], tuple[int, ...] | None], ...]
    family: str | None = None
    by_tokens: bool = False
    convert: Mapping[int, Convert] = field(default_factory=dict)
    copies: bool = False
    offsets: tuple[int, ...] = ()
    integers: tuple[int, ...] = ()
    scalars: Mapping[str, float] = field(default_factory=dict)
    unread: tuple[torch.Tensor, ...] = ()
    kept: bool = True


@dataclass(frozen=True)
class Unserved:
    """Description of a call that no kernel can compute.

    Attributes:
        problem: fields that describe the call in the report.
        reason: reason why no kernel can compute the call.
    """

    problem: Mapping[str, Any]
    reason: str


Terms = tuple[Any, ...]
"""Arguments of a function other than tensors."""


def rows_problem(input: torch.Tensor, cols: int) -> dict[str, Any]:
    """Return the problem fields of a row-wise computation."""
    return {"rows": input.numel() // cols if cols else 0, "cols": cols, "dtype": dtype_name(input.dtype)}


def dtype_name(dtype: torch.dtype) -> str:
    """Return the dtype's name as used in problems."""
    return str(dtype).removeprefix("torch.")


def lies_by_tokens(heads: torch.Tensor) -> bool:
    """Return True if a tensor of shape (B, H, S, D) has the memory layout (B, S, H, D) and is not contiguous.

    If H or S is 1, both layouts are the same, and the result is False.
    """
    return not heads.is_contiguous() and heads.transpose(1, 2).is_contiguous()


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A function of this package whose calls a kernel may compute.

    Attributes:
        name: name of the function.
        arguments: names of the function's tensors.
        family: family of the kernels that compute the function.
        plain: computes the function with PyTorch, for the backward pass. Its arguments are the terms (a tuple of the
            function's arguments other than tensors) and then the inputs.
        describe: takes a tuple of inputs and the terms; returns a description of the call (`Call`), or `Unserved`
            if no kernel fits.
    """

    name: str
    arguments: tuple[str, ...]
    family: str
    plain: Callable[..., Any]
    describe: Callable[..., Call | Unserved]

    def outputs(self, inputs: tuple[torch.Tensor | None, ...], terms: Terms = ()) -> Sequence[torch.Tensor] | None:
        """Return a kernel's outputs for a call. If PyTorch must compute the call, count the call and return None.

        Raises:
            LookupError: no kernel can compute the call, and `strict` is set.
        """
        key = key_of(self.name, inputs, terms)
        plan = PLANS.get(key)
        if plan is not None:
            if plan.launch is None:
                plan.count.calls += 1
                return None
            found = plan.run(inputs)
            if found is not None:
                return found
        return self._decided(key, inputs, terms)

    def _decided(self, key: Key | None, inputs: tuple[Any, ...], terms: Terms) -> Sequence[torch.Tensor] | None:
        """Choose and store the plan of a call. Return the outputs, or None if PyTorch must compute the call."""
        plan, kept = self._decision(inputs, terms)
        if kept:
            keep(key, plan)
        if plan.launch is None:
            plan.count.calls += 1
            return None
        if torch.is_grad_enabled() and any(each.requires_grad for each in inputs):
            outputs = _Differentiable.apply(plan, self.plain, terms, *inputs)
            return outputs if isinstance(outputs, tuple) else (outputs,)
        return plan.launched(inputs)

    def _decision(self, inputs: tuple[Any, ...], terms: Terms) -> tuple[Plan, bool]:
        """Return the plan of a call, and whether it is valid for all calls with the same key.

        Raises:
            LookupError: no kernel can compute the call, and `strict` is set.
        """
        call = self.describe(inputs, terms)
        if isinstance(call, Unserved):
            return Plan(TABLE.fallback(self.name, self.family, call.problem, call.reason)), True
        family, kept = call.family or self.family, call.kept
        reason = _unsupported_reason(self.arguments, inputs, call)
        if reason is None:
            found = TABLE.find(self.name, family, inputs[0].device, call.problem)
            if isinstance(found, Fallback):
                # the number of threads may change between calls; everything else is part of the key
                return Plan(found), kept and not found.reason.startswith(MORE_THREADS)
            plan = _planned(found, call, inputs)
            if plan is None:
                reason = "the kernel for this problem has different parameters"
            elif (reason := _unaligned(self.arguments, inputs, plan)) is None:
                return plan, kept
            else:
                kept = False
        return Plan(TABLE.fallback(self.name, family, call.problem, reason)), kept


def _planned(entry: Entry, call: Call, inputs: Sequence[torch.Tensor]) -> Plan | None:
    """Return a plan that computes the call with the kernel of `entry`; None if the kernel has different parameters."""
    kernel = entry.kernel
    assert kernel is not None
    count = 1 if call.offsets else len(inputs) + len(call.unread)
    if (
        not call.scalars.keys() <= kernel.scalars
        or count != len(kernel.inputs)
        or len(call.results) != len(kernel.results)
    ):
        return None
    results = [(*seen, dtype) for seen, (_, _, dtype) in zip(call.results, kernel.results, strict=True)]
    return Plan(
        entry,
        kernel.prepare(inputs[0].device, call.scalars, results),
        alignments=kernel.alignments,
        threads=entry.threads if entry.device == "cpu" else 0,
        convert=call.convert,
        copies=call.copies,
        offsets=call.offsets,
        unread=tuple(each.data_ptr() for each in call.unread),
    )


def _unsupported_reason(names: Sequence[str], inputs: Sequence[torch.Tensor], call: Call) -> str | None:  # noqa: PLR0911
    """Return the reason why no kernel supports these tensors; None if a kernel may support them."""
    first = inputs[0]
    for index, (name, each) in enumerate(zip(names, inputs, strict=False)):
        if type(each) not in _KINDS:
            return f"{name} is a subclass of Tensor"
        if each.layout is not torch.strided or each.is_nested:
            return f"{name} has no strides"
        if each.device != first.device:
            return f"{name} is on {each.device}, but {names[0]} is on {first.device}"
        if each.dtype != first.dtype and index not in call.integers:
            return f"{name} has dtype {each.dtype}, but {names[0]} has {first.dtype}"
        laid_out = each.transpose(1, 2) if call.by_tokens and each.ndim == 4 else each
        if not call.offsets and index not in call.convert and not laid_out.is_contiguous():
            return f"{name} is not contiguous in memory"
    if torch.is_autocast_enabled(first.device.type):
        return "autocast is enabled"
    return None


def _unaligned(names: Sequence[str], inputs: Sequence[torch.Tensor], plan: Plan) -> str | None:
    """Return the reason why a kernel cannot read the inputs at their addresses; None if the kernel can."""
    read = inputs[:1] if plan.offsets else plan.converted(inputs)
    try:
        for name, each, alignment in zip(names, read, plan.alignments, strict=False):
            if each.data_ptr() % alignment:
                return f"{name} is not aligned to {alignment} bytes"
    except RuntimeError:
        return f"{', '.join(names[: len(read)])}: a tensor has no memory of its own"
    return None


class _Differentiable(torch.autograd.Function):  # type: ignore[misc]
    """Runs a kernel in the forward pass. The backward pass repeats the call with PyTorch and differentiates it."""

    @staticmethod
    def forward(ctx: Any, plan: Plan, plain: Callable[..., Any], terms: Terms, *inputs: torch.Tensor) -> Any:
        ctx.plain, ctx.terms = plain, terms
        ctx.save_for_backward(*inputs)
        outputs = plan.launched(inputs)
        assert outputs is not None, "the addresses were checked"
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        inputs = [each.detach().requires_grad_(each.requires_grad) for each in ctx.saved_tensors]
        with torch.enable_grad():
            outputs = ctx.plain(ctx.terms, *inputs)
        wanted = [each for each in inputs if each.requires_grad]
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        found = iter(torch.autograd.grad(outputs, wanted, gradients, allow_unused=True))
        return (None, None, None, *(next(found) if each.requires_grad else None for each in inputs))
