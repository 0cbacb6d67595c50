"""Detects leaks from the size of a kernel process's memory after its batches of calls."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median_low

from workers.backends.cpu.process.batch import Batch

_LEAST_BATCHES = 3
"""Minimum number of batches before a kernel is rejected."""

_LEAST_LEAK_BYTES = 16
"""Growth of the memory that counts as a leak, in bytes per batch or per doubling of the calls. No block of malloc is
smaller.
"""

_LEAST_GROWTHS = 12
"""Memory that grows in at least this number of batches, and never shrinks, counts as a leak. If a kernel allocates
memory only once, or once per thread, and keeps this memory, there are fewer growths.
"""

_FIRST_CALL, _LEAST_DOUBLINGS = 16, 6
"""Number of calls before the first recorded memory size, and number of consecutive doublings of the calls in which the
memory must grow to count as a leak. Correct kernels allocate the memory that they keep in the first calls.
"""


@dataclass(kw_only=True)
class MemoryGrowth:
    """Sizes of a process's memory at increasing numbers of calls, each at least twice the previous number.

    These sizes reveal a growing list that doubles its capacity when it is full. Its memory grows rarely, but at least
    once whenever the number of calls doubles.

    Attributes:
        calls: number of all calls of the process so far.
    """

    calls: int = 0
    _at: list[int] = field(default_factory=list)
    _sizes: list[tuple[int, ...]] = field(default_factory=list)

    def note(self, sizes: tuple[int, ...]) -> None:
        """Record the size in bytes of each part of the memory, if `calls` is at least twice that of the last record."""
        if self.calls >= (2 * self._at[-1] if self._at else _FIRST_CALL):
            self._at.append(self.calls)
            self._sizes.append(sizes)

    def leak(self) -> str | None:
        """Return a description of the leak if the memory grew in each of the last doublings, else None."""
        if len(self._at) <= _LEAST_DOUBLINGS:
            return None
        for sizes in _series(self._sizes[-_LEAST_DOUBLINGS - 1 :]):
            if min(sizes) > 0 and all(after - before >= _LEAST_LEAK_BYTES for before, after in pairwise(sizes)):
                first, last = self._at[-_LEAST_DOUBLINGS - 1], self._at[-1]
                return (
                    f"keeps more and more memory: {sizes[-1] - sizes[0]:,} bytes more after {last:,} calls than after "
                    f"{first:,}"
                )
        return None


def leak(batches: Sequence[Batch]) -> str | None:
    """Return a description of the leak, or None if there is none.

    A leak is memory that grows in most batches, or that grows at least `_LEAST_GROWTHS` times and never shrinks.
    """
    if len(batches) < _LEAST_BATCHES:
        return None
    calls = [batch.calls for batch in batches[1:]]
    for sizes in _series([(each.heap_bytes, *each.mapped_bytes) for each in batches]):
        steps = [after - before for before, after in pairwise(sizes)]
        if median_low(steps) >= _LEAST_LEAK_BYTES:
            lost = median_low(step / made for step, made in zip(steps, calls, strict=True))
        elif min(steps) >= 0 and sum(step >= _LEAST_LEAK_BYTES for step in steps) >= _LEAST_GROWTHS:
            lost = sum(steps) / sum(calls)
        else:
            continue
        if min(sizes) > 0:
            return f"keeps {lost:.{0 if lost >= 10 else 2}f} bytes of the memory that each call allocates"
    return None


def _series(sizes: Iterable[tuple[int, ...]]) -> Iterable[tuple[int, ...]]:
    """Return the sizes of each part of the memory over time. Parts whose size is sometimes unknown are omitted."""
    return zip(*sizes, strict=False)
