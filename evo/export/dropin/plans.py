"""Plans: cached decisions about which kernel computes a call, or that PyTorch computes it.

A repeated call needs only a lookup, and a check of addresses, gradients and the number of threads, which are not part
of the cache key.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .kernels import Launch
from .table import TABLE, Entry, Fallback

Key = tuple[Any, ...]
Convert = Callable[[torch.Tensor], torch.Tensor]
"""Returns a tensor with equal values that the kernel can read."""

KEPT = 4096
"""Maximum number of plans. When it is reached, all plans are dropped."""

_threads, _grad_enabled = torch.get_num_threads, torch.is_grad_enabled
_any_autocast = getattr(torch._C, "_is_any_autocast_enabled", None)  # 3 times as fast as the query for a single device


@dataclass(slots=True)
class Plan:
    """How calls with the same cache key are computed: by a kernel, or by PyTorch.

    Attributes:
        count: record that counts the calls.
        launch: launches the kernel; None if PyTorch computes the call.
        alignments: required alignment, in bytes, of each address that the kernel reads.
        threads: the plan is valid if PyTorch uses at most this number of threads; 0 if there is no limit.
        convert: functions that convert inputs which the kernel cannot read directly, by the index of the input.
        copies: True if the conversions are copies to the kernel's layout, which the report counts.
        offsets: byte offset of each input from the first one, if the inputs are views of one tensor that the kernel
            reads as a whole; else empty.
        unread: addresses that are passed after the inputs' addresses, but that the kernel does not read.
    """

    count: Entry | Fallback
    launch: Launch | None = None
    alignments: Sequence[int] = ()
    threads: int = 0
    convert: Mapping[int, Convert] = field(default_factory=dict)
    copies: bool = False
    offsets: tuple[int, ...] = ()
    unread: tuple[int, ...] = ()
    _mask: int = 0

    def __post_init__(self) -> None:
        self._mask = max(self.alignments, default=1) - 1

    def run(self, inputs: Sequence[Any]) -> list[torch.Tensor] | None:
        """Launch the kernel and return the outputs.

        If PyTorch uses more threads than `threads`, an input needs a gradient, or `launched` refuses the inputs, launch
        nothing and return None.
        """
        if self.threads and _threads() > self.threads:
            return None
        if _grad_enabled():
            for each in inputs:
                if each.requires_grad:
                    return None
        return self.launched(inputs)

    def launched(self, inputs: Sequence[Any]) -> list[torch.Tensor] | None:
        """Launch the kernel and return the outputs, without a gradient check.

        If an input has no memory, is not aligned, or is not at the offset that the plan requires, launch nothing and
        return None.
        """
        if self.convert:
            inputs = self.converted(inputs)  # this name keeps the copies alive until the launch
        addresses, low = [], 0
        try:
            for each in inputs:
                address = each.data_ptr()
                addresses.append(address)
                low |= address
        except RuntimeError:  # vmap passes tensors without memory, whose type is Tensor
            return None
        if self.offsets:
            low = addresses[0]
            if any(address - low != offset for address, offset in zip(addresses, self.offsets, strict=True)):
                return None
            addresses = [low]
        if low & self._mask and any(
            address % alignment for address, alignment in zip(addresses, self.alignments, strict=False)
        ):
            return None
        if self.unread:
            addresses += self.unread
        self.count.calls += 1
        if self.copies and isinstance(self.count, Entry):
            self.count.copied += 1
        assert self.launch is not None
        return self.launch(addresses)

    def converted(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the inputs after the conversions that the kernel requires."""
        return [self.convert[index](each) if index in self.convert else each for index, each in enumerate(inputs)]


PLANS: dict[Key | None, Plan] = {}
"""Plans by the cache key of a call; see `key_of`."""


def keep(key: Key | None, plan: Plan) -> None:
    """Store the plan for later calls with the same cache key. Do nothing if the key is None."""
    if key is not None:
        if len(PLANS) >= KEPT:
            PLANS.clear()
        PLANS[key] = plan


def strict(on: bool = True) -> None:
    """If `on` is True, calls without a kernel raise LookupError from now on; otherwise, PyTorch computes them."""
    TABLE.strict = on
    PLANS.clear()


def key_of(name: str, inputs: Sequence[torch.Tensor | None], terms: tuple[Any, ...]) -> Key | None:
    """Return the cache key of a call; None if an input is not a tensor, or has no strides.

    The key contains everything that the plan depends on, except addresses, gradients and the number of threads.

    Args:
        name: name of the function.
        inputs: tensors of the call; the first is never None.
        terms: arguments of the function other than tensors.
    """
    parts: list[Any] = [name, terms]
    try:
        if _any_autocast is None or _any_autocast():
            parts.append(torch.is_autocast_enabled(inputs[0].device.type))  # type: ignore[union-attr]
        for each in inputs:
            if each is None:
                parts.append(None)
            else:
                # strides of contiguous tensors differ only in dimensions of size 1, where no kernel uses them
                strides = True if each.is_contiguous() else each.stride()
                parts += (type(each), each.shape, strides, each.dtype, each.device)
        return tuple(parts)
    except (AttributeError, RuntimeError, NotImplementedError):
        return None
