"""Batches of calls in a kernel process, and checks whether their reported times are plausible."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from threading import Lock

from workers.backends.cpu.segment import Segment

MOST_DISAGREEMENT = 0.01
"""Share of a batch by which claimed and counted time may differ, beyond the cost of the request itself."""

DISAGREEMENT_OF_TURNS = 0.1
"""The same for calls on several sets in turn, which are not repeated: they are only compared with calls on one set, for
which a difference of a quarter counts.
"""

_SPREAD_NS = 4_000
"""Spread of the time that the system counts for the same few system calls."""

_COLD_REQUEST = 2.0
"""Factor by which a request's processor time may exceed its idle one, because a kernel has filled the caches."""

_COLD_REQUEST_NS = 20_000
"""Additional processor time allowed per request: on a busy machine honest kernels exceeded the idle cost by 10 µs."""

_WAITS = 5
"""Factor over the fastest idle answer from which a wait counts as unexplained."""

_DISAGREEING = 10
"""One batch in this many may remain contradicted after repetition."""

LEAST_BATCHES = 3
"""Fewest batches that are judged."""

_LEAST_LEAK_BYTES = 16
"""Memory that must be lost in most batches to count as a leak; malloc never returns less."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Consecutive calls, timed by the kernel process and by the judge.

    Attributes:
        claimed_ns: duration according to the process; -1 if it lies outside the span measured by the judge.
        wall_ns: time between the judge's request and the reply.
        cpu_ns: CPU time of the process in that span, as counted by the system.
        changes: process state that the calls left changed, as text; None if none.
        heap_bytes: memory the process holds on its heap afterwards.
        mapped_bytes: memory of the process afterwards, by several measures.
        restored_ns: part of `claimed_ns` spent on restoring arguments between the calls.
        requests: number of requests that made the calls.
        waiting_ns: part of `wall_ns` in which this process or the kernel process was ready but had no core; 0 if
            unknown.
    """

    calls: int
    claimed_ns: int
    wall_ns: int
    cpu_ns: int
    changes: str | None = None
    heap_bytes: int = 0
    mapped_bytes: tuple[int, ...] = ()
    restored_ns: int = 0
    waiting_ns: int = 0
    requests: int = 1


def contradicts(batch: Batch, idle: Sequence[Batch], threads: int) -> bool:
    """Return True if the system counted more CPU time than the batch can have used.

    The process cannot change that figure, and it does not grow while other programs run. A process that claims less
    than it used has a wrong clock or used more cores than it may.

    What a request costs apart from the calls depends on the caches that the kernel leaves and on other programs, and
    cannot be bounded: a longer batch of an honest kernel is not contradicted, one with a wrong clock is.

    Args:
        idle: batches of an empty function, taken by the same process before it loaded the candidate.
        threads: cores that the process may use at once.
    """
    return bool(_contradicting([batch], idle, threads, MOST_DISAGREEMENT))


def _contradicting(batches: Sequence[Batch], idle: Sequence[Batch], threads: int, disagreement: float) -> list[Batch]:
    """Return the batches for which the system counted more CPU time than they can have used.

    Args:
        disagreement: share of the claimed time that is allowed.
    """
    request_ns = _COLD_REQUEST * median(each.cpu_ns - each.claimed_ns for each in idle) + _COLD_REQUEST_NS
    allowed = threads * (1 + disagreement)
    return [each for each in batches if each.cpu_ns - allowed * each.claimed_ns > request_ns * each.requests]


def overdue(batch: Batch, idle: Sequence[Batch]) -> bool:
    """Return True if the reply took much longer than the claimed time plus the time of an idle reply.

    Competing programs delay answers by milliseconds. Waiting for a core is counted by the system and subtracted. They
    may have caused the rest as well, so one such batch proves nothing.
    """
    waited_ns = min(each.wall_ns - each.claimed_ns for each in idle) + _SPREAD_NS
    unexplained_ns = batch.wall_ns - batch.waiting_ns - batch.claimed_ns * (1 + MOST_DISAGREEMENT)
    return unexplained_ns > _WAITS * waited_ns


def worth_repeating(batch: Batch, ledger: Sequence[Batch], idle: Sequence[Batch], threads: int) -> bool:
    """Return True if a batch is contradicted and a repetition may clear it.

    Other programs disturb single attempts; a wrong clock contradicts every one. Batches in `ledger` were repeated
    already. Once enough of them are contradicted for a judgement, further attempts are pointless.

    Args:
        ledger: the batches that were accepted so far.
    """
    if contradicts(batch, idle, threads):
        return len(_contradicting(ledger, idle, threads, MOST_DISAGREEMENT)) < LEAST_BATCHES
    return overdue(batch, idle) and len(ledger) < LEAST_BATCHES and all(overdue(each, idle) for each in ledger)


def contradicted(batches: Sequence[Batch], idle: Sequence[Batch], threads: int) -> str | None:
    """Return why the claimed times are impossible; None if they are consistent.

    Waiting uses no processor time, so a process that waits and claims less time is detected by its overdue batches.
    """
    if overuse := overused(batches, idle, threads):
        return overuse
    if len(batches) >= LEAST_BATCHES and all(overdue(batch, idle) for batch in batches):
        claimed, passed = (median(each) for each in zip(*((b.claimed_ns, b.wall_ns) for b in batches), strict=True))
        return f"the process claims {claimed / 1e3:.4g} µs a sample where {passed / 1e3:.4g} µs passed"
    return None


def overused(
    batches: Sequence[Batch], idle: Sequence[Batch], threads: int, disagreement: float = MOST_DISAGREEMENT
) -> str | None:
    """Return why the claimed times are impossible by the processor time alone; None if they are consistent."""
    if len(batches) < LEAST_BATCHES:
        return None
    if any(batch.claimed_ns < 0 for batch in batches):
        return "the process reports times outside of the span between request and answer"
    over = _contradicting(batches, idle, threads, disagreement)
    if len(over) * _DISAGREEING > len(batches):
        claimed, counted = (median(each) for each in zip(*((b.claimed_ns, b.cpu_ns) for b in over), strict=True))
        return (
            f"in {len(over)} of {len(batches)} samples the kernel used more processor time than the calls can have "
            f"taken on {threads} core{'s' * (threads > 1)}: {counted / 1e3:.4g} µs in {claimed / 1e3:.4g} µs"
        )
    return None


def joined(one: Batch, other: Batch) -> Batch:
    """Merge two batches, because samples too short for the system's CPU accounting are judged together."""
    return Batch(
        calls=one.calls + other.calls,
        claimed_ns=-1 if min(one.claimed_ns, other.claimed_ns) < 0 else one.claimed_ns + other.claimed_ns,
        wall_ns=one.wall_ns + other.wall_ns,
        cpu_ns=one.cpu_ns + other.cpu_ns,
        changes=one.changes or other.changes,
        restored_ns=one.restored_ns + other.restored_ns,
        waiting_ns=one.waiting_ns + other.waiting_ns,
        requests=one.requests + other.requests,
    )


def leak(batches: Sequence[Batch]) -> str | None:
    """Describe the memory that calls leak; None if the process does not grow with the calls.

    A kernel that allocates memory once, or whose memory grows in few batches, does not leak.
    """
    if len(batches) < LEAST_BATCHES:
        return None
    calls = [batch.calls for batch in batches[1:]]
    for sizes in zip(*((each.heap_bytes, *each.mapped_bytes) for each in batches), strict=False):
        steps = [after - before for before, after in pairwise(sizes)]
        if min(sizes) > 0 and median(steps) >= _LEAST_LEAK_BYTES:
            lost = median(step / made for step, made in zip(steps, calls, strict=True))
            return f"keeps {lost:.{0 if lost >= 10 else 2}f} bytes of the memory that each call allocates"
    return None


_WORDS, _HALT = 32, 16
"""Words of 8 bytes. The order has a separate cache line, so that reading the count delays no call."""

_LOOKS = 50
"""Number of reads of the count before the system is asked whether the batch has ended, which takes longer."""


class SharedPace:
    """A memory page shared with one kernel process, in which the loop that calls the kernel counts completed calls.

    A kernel could read the length of a batch from the loop, so the judge may end a batch at any time.

    Attributes:
        halted: True if the judge ordered the batch to end. This does not read the page, because a kernel may write to
            it.
    """

    def __init__(self) -> None:
        self.segment = Segment([8 * _WORDS], writable=True)
        self._words = self.segment.bytes_of(self.segment.rooms[0]).data.cast("Q")
        self.halted = False
        self._fence = Lock()

    @property
    def made(self) -> int:
        """Number of completed calls of the batch."""
        return self._words[0]

    def begin(self) -> None:
        """Reset the page for the next batch."""
        self._words[0] = self._words[_HALT] = 0
        self.halted = False

    def wait_for(self, calls: int, running: Callable[[], bool]) -> None:
        """Wait until this many calls are complete, or the batch has ended."""
        words, looks = self._words, 0
        while words[0] < calls:
            looks += 1
            if looks % _LOOKS == 0 and not running():
                break

    def halt_after_next(self, running: Callable[[], bool]) -> int:
        """End the batch after the first call that certainly starts after this request.

        Args:
            running: False once the batch has ended.

        Returns:
            Number of calls that had ended, plus one that may have begun before. If more were made, the last one began
                later.
        """
        words = self._words  # the following steps take less time than a few short calls
        with self._fence:  # makes this thread's writes visible before the count is read
            pass
        under_way = words[0] + 1
        self.wait_for(under_way, running)
        words[_HALT] = 1
        self.halted = True
        return under_way
