"""Calls in a row by a kernel process, and whether what it says of them can be."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

MOST_DISAGREEMENT = 0.01
"""The share of a sample by which the process's time may differ from the system's account, beyond what idle calls
differ."""

_SPREAD_NS = 4_000
"""The spread of what the system counts for the same few system calls."""

_COLD_REQUEST = 2.0
"""A request takes up to this many times its idle processor time once a kernel has filled the caches."""

_COLD_REQUEST_NS = 20_000
"""And this much more: on a busy machine honest kernels exceeded the idle account by 10 µs a sample."""

_WAITS = 5
"""So many times as long as in the best case an answer may be on its way each time."""

_DISAGREEING = 10
"""A sample in so many may be contradicted although it was taken again."""

_LEAST_BATCHES = 3
_LEAK_BYTES_A_CALL = 8
"""malloc never gives less than 16 bytes away."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Calls in a row.

    Attributes:
        claimed_ns: what the process says they took; -1: it names a time outside of ours.
        wall_ns: what passed here from asking to its answer.
        cpu_ns: processor time that the system counted for the process meanwhile.
        changes: what the calls left changed, in words.
        heap_bytes: held by the process afterwards.
    """

    calls: int
    claimed_ns: int
    wall_ns: int
    cpu_ns: int
    changes: str | None = None
    heap_bytes: int = 0


def contradicts(batch: Batch, idle: Sequence[Batch], threads: int) -> bool:
    """Whether the system counted more processor time for a batch than its calls can have taken.

    That time is counted by the system alone, and does not grow while other programs run. A process that claims less
    than it used has a wrong clock, or used more cores than it may.

    Args:
        idle: the same process before it loaded anything.
    """
    beside_ns = _COLD_REQUEST * median(each.cpu_ns - each.claimed_ns for each in idle) + _COLD_REQUEST_NS
    return batch.cpu_ns - threads * batch.claimed_ns * (1 + MOST_DISAGREEMENT) > beside_ns


def contradicted(batches: Sequence[Batch], idle: Sequence[Batch], threads: int) -> str | None:
    """How the times that a process claims cannot be; None where nothing speaks against them.

    Waiting is no processor time: a process that claims less than passed is found by the shortest of the differences.
    """
    if len(batches) < _LEAST_BATCHES:
        return None
    if any(batch.claimed_ns < 0 for batch in batches):
        return "the process names times that lie outside of those in which it was asked and answered"
    over = [batch for batch in batches if contradicts(batch, idle, threads)]
    if len(over) * _DISAGREEING > len(batches):
        claimed, counted = (median(each) for each in zip(*((b.claimed_ns, b.cpu_ns) for b in over), strict=True))
        return (
            f"in {len(over)} of {len(batches)} samples the kernel used more processor time than the calls can have "
            f"taken on {threads} core{'s' * (threads > 1)}: {counted / 1e3:.4g} µs in {claimed / 1e3:.4g} µs"
        )
    waited_ns = min(batch.wall_ns - batch.claimed_ns for batch in idle) + _SPREAD_NS
    missing_ns = [batch.wall_ns - batch.claimed_ns * (1 + MOST_DISAGREEMENT) for batch in batches]
    if min(missing_ns) > _WAITS * waited_ns:
        claimed, passed = (median(each) for each in zip(*((b.claimed_ns, b.wall_ns) for b in batches), strict=True))
        return f"the process claims {claimed / 1e3:.4g} µs a sample where {passed / 1e3:.4g} µs passed"
    return None


def leak(batches: Sequence[Batch]) -> str | None:
    """What calls kept of the memory that they allocated; None where it does not grow with them."""
    if len(batches) < _LEAST_BATCHES or not batches[0].heap_bytes:
        return None
    steps = [(after.heap_bytes - before.heap_bytes) / after.calls for before, after in pairwise(batches)]
    lost = median(steps)
    if lost < _LEAK_BYTES_A_CALL:
        return None
    return f"keeps {lost:.0f} bytes of the memory that each call allocates"
