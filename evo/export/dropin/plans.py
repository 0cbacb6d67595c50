"""Plans: cached decisions on earlier calls, by everything that determines them, so that a repeated call has a small
host cost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .kernels import Kernel, Result
from .table import TABLE, Entry, Fallback

Key = tuple[Any, ...]
KEPT = 4096
"""Maximum number of plans; if there are more, all are dropped."""


@dataclass(slots=True)
class Plan:
    """The decision for all calls with the same key.

    Attributes:
        count: the record whose calls are counted.
        kernel: the kernel; None: PyTorch serves the call.
        results: shapes, strides and dtypes of the outputs as the caller gets them.
        threads: largest number of PyTorch's threads; 0: any.
        copied: indices of the inputs that are copied into the layout of the first one.
        by_tokens: True if that layout is (B, S, H, D) instead of that of the shapes.
        apart: bytes from the address of the first input to that of each, if they are parts of one tensor, which the
            kernel reads as a whole; else empty.
    """

    count: Entry | Fallback
    kernel: Kernel | None = None
    results: tuple[Result, ...] = ()
    threads: int = 0
    copied: tuple[int, ...] = ()
    by_tokens: bool = False
    apart: tuple[int, ...] = ()

    def run(
        self, inputs: tuple[Any, ...], scalars: Mapping[str, float], device: torch.device
    ) -> list[torch.Tensor] | None:
        """Launch the kernel; return None without a launch if these tensors need a full check."""
        kernel = self.kernel
        if kernel is None or (self.threads and torch.get_num_threads() > self.threads):
            return None
        if torch.is_grad_enabled() and any(each.requires_grad for each in inputs):
            return None
        if self.copied:
            inputs = self.laid_out(inputs)
        try:
            addresses = [each.data_ptr() for each in inputs]
        except RuntimeError:  # tensors of vmap have the type Tensor, and no memory
            return None
        if self.apart:
            first = addresses[0]
            if any(address - first != apart for address, apart in zip(addresses, self.apart, strict=True)):
                return None
            addresses = [first]
        for address, alignment in zip(addresses, kernel.alignments, strict=True):
            if address % alignment:
                return None
        self.counted()
        return kernel.launch(addresses, scalars, device, self.results)

    def counted(self) -> None:
        """Count a call on the kernel."""
        self.count.calls += 1
        if self.copied and isinstance(self.count, Entry):
            self.count.copied += 1

    def laid_out(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the inputs with copies of those in another layout."""
        return tuple(
            each
            if place not in self.copied
            else each.transpose(1, 2).contiguous().transpose(1, 2)
            if self.by_tokens
            else each.contiguous()
            for place, each in enumerate(inputs)
        )


class Plans:
    """Cache of plans by the key of a call."""

    def __init__(self) -> None:
        self._plans: dict[Key, Plan] = {}

    def get(self, key: Key | None) -> Plan | None:
        return None if key is None else self._plans.get(key)

    def keep(self, key: Key | None, plan: Plan) -> None:
        if key is not None:
            if len(self._plans) >= KEPT:
                self._plans.clear()
            self._plans[key] = plan

    def clear(self) -> None:
        self._plans.clear()


PLANS = Plans()


def strict(on: bool = True) -> None:
    """Raise LookupError instead of calling PyTorch if no kernel serves a call."""
    TABLE.strict = on
    PLANS.clear()


def key_of(terms: tuple[Any, ...], tensors: Sequence[torch.Tensor | None]) -> Key | None:
    """Return the key of a call: everything that determines how it is served, except addresses and gradients; None for
    tensors without strides.

    Args:
        terms: the function and its arguments other than tensors.
    """
    parts: list[Any] = [terms]
    try:
        for each in tensors:
            if each is None:
                parts.append(None)
            else:
                parts += (type(each), each.shape, each.stride(), each.dtype, each.device)
        first = tensors[0]
        parts.append(first is not None and torch.is_autocast_enabled(first.device.type))
        return tuple(parts)
    except (AttributeError, RuntimeError, NotImplementedError):
        return None
