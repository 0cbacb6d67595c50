"""Batches of calls in a kernel process, and checks that their reported times are possible."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from threading import Lock

from workers.backends.cpu.segment import Segment

MOST_DISAGREEMENT = 0.01
"""Allowed difference between reported and counted time, as a fraction of the batch, in addition to the
request's cost.
"""

DISAGREEMENT_OF_TURNS = 0.1
"""Like `MOST_DISAGREEMENT`, for batches of one call on each of several sets. Such batches are not repeated. They are
only compared with calls on one set, where a difference of a quarter matters.
"""

_SPREAD_NS = 4_000
"""Variation, in ns, of the time that the system counts for the same few system calls."""

_COLD_REQUEST = 2.0
"""Factor by which the processor time of a request may exceed that of an idle request, because a kernel filled the
caches.
"""

_COLD_REQUEST_NS = 20_000
"""Additional processor time allowed per request, in ns. On a busy machine, correct kernels exceeded the idle cost by 10
µs.
"""

_WAITS = 5
"""Multiple of the duration of the fastest idle reply above which a wait counts as unexplained."""

_DISAGREEING = 10
"""One batch in `_DISAGREEING` may remain contradicted after its repetitions."""

_LEAST_PAUSE_NS = 1_000_000
"""Shortest pause, in ns, in which another kernel may have been timed."""

LEAST_BATCHES = 3
"""Minimum number of batches for a verdict."""

_LEAST_LEAK_BYTES = 16
"""Number of bytes per call that must be lost in most batches to count as a leak. malloc never allocates fewer bytes."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Consecutive calls, timed by the kernel process and by the runner.

    Attributes:
        claimed_ns: duration that the process reported, in ns. -1 if the reported start or end lies outside the interval
            that the runner measured.
        wall_ns: time between the runner's request and the reply, in ns.
        cpu_ns: processor time of the process between request and reply, as counted by the operating system, in ns.
        changes: description of the process state that the calls changed and did not restore. None if there is none.
        heap_bytes: size of the heap of the process after the calls.
        mapped_bytes: size of the process's memory after the calls, and size of its private writable part. Empty if
            unknown.
        restored_ns: part of `claimed_ns` in which arguments were restored between calls.
        requests: number of requests that made the calls.
        waiting_ns: part of `wall_ns` in which this process or the kernel process was ready but had no core. 0 if
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


@dataclass(frozen=True, kw_only=True)
class Pause:
    """The time between two batches, if there was no request in between, and the processor time used in this time."""

    wall_ns: int
    cpu_ns: int


def contradicts(batch: Batch, idle: Sequence[Batch], threads: int) -> bool:
    """Return True if the system counted more processor time than the batch can have used.

    The process cannot change the counted time, and other programs do not add to it. If the counted time is much longer
    than the reported time, the process has a wrong clock or used more cores than it may.

    A request itself also takes processor time, which depends on caches and other programs and has no upper bound. A
    short batch may therefore be contradicted although its kernel is correct. A longer batch is contradicted only if the
    clock is wrong or too many cores are used.

    Args:
        idle: batches of calls of an empty function, made by the same process before it loaded the candidate.
        threads: number of cores that the process may use at once.
    """
    return bool(_contradicting([batch], idle, threads, MOST_DISAGREEMENT))


def _contradicting(batches: Sequence[Batch], idle: Sequence[Batch], threads: int, disagreement: float) -> list[Batch]:
    """Return the batches whose counted processor time is larger than their reported time permits.

    Args:
        disagreement: allowed excess of the counted time, as a fraction of the reported time.
    """
    request_ns = _request_ns(idle)
    allowed = threads * (1 + disagreement)
    return [
        each
        for each in batches
        if each.cpu_ns - allowed * each.claimed_ns - _waiting_actively_ns(each, threads) > request_ns * each.requests
    ]


def _request_ns(idle: Sequence[Batch]) -> float:
    """Return the processor time that a request may take."""
    return _COLD_REQUEST * median(each.cpu_ns - each.claimed_ns for each in idle) + _COLD_REQUEST_NS


def _waiting_actively_ns(batch: Batch, threads: int) -> int:
    """Return the processor time in ns that threads of the kernel's own pool may use before and after the timed calls.

    Threads of OpenMP wait for the next call in a busy loop, which uses processor time.
    """
    return (threads - 1) * max(0, batch.wall_ns - batch.claimed_ns)


def overdue(batch: Batch, idle: Sequence[Batch]) -> bool:
    """Return True if the reply took much longer than the reported time plus the time of an idle reply.

    Other programs can delay replies by milliseconds. The system counts the time in which a process waited for a core,
    and this time is subtracted. Other programs can also cause the remaining delay, so a single overdue batch proves
    nothing.
    """
    waited_ns = min(each.wall_ns - each.claimed_ns for each in idle) + _SPREAD_NS
    unexplained_ns = batch.wall_ns - batch.waiting_ns - batch.claimed_ns * (1 + MOST_DISAGREEMENT)
    return unexplained_ns > _WAITS * waited_ns


def worth_repeating(batch: Batch, ledger: Sequence[Batch], idle: Sequence[Batch], threads: int) -> bool:
    """Return True if the reported time of a batch is suspicious, and a repetition may show that other programs caused
    the deviation.

    Other programs disturb single batches. With a wrong clock, every batch is contradicted. Once `ledger` has enough
    contradicted batches for a verdict, the batch is not repeated.

    Args:
        ledger: the batches that were accepted so far, after their repetitions.
    """
    if contradicts(batch, idle, threads):
        return len(_contradicting(ledger, idle, threads, MOST_DISAGREEMENT)) < LEAST_BATCHES
    return overdue(batch, idle) and len(ledger) < LEAST_BATCHES and all(overdue(each, idle) for each in ledger)


def contradicted(batches: Sequence[Batch], idle: Sequence[Batch], threads: int) -> str | None:
    """Return the reason why the reported times are impossible, or None if they are plausible.

    A process that waits uses no processor time. If it does not report the waiting time, it is detected because all its
    replies are overdue.
    """
    if overuse := overused(batches, idle, threads):
        return overuse
    if len(batches) >= LEAST_BATCHES and all(overdue(batch, idle) for batch in batches):
        claimed, passed = (median(each) for each in zip(*((b.claimed_ns, b.wall_ns) for b in batches), strict=True))
        return f"the process reports {claimed / 1e3:.4g} µs per sample, but {passed / 1e3:.4g} µs passed"
    return None


def overused(
    batches: Sequence[Batch], idle: Sequence[Batch], threads: int, disagreement: float = MOST_DISAGREEMENT
) -> str | None:
    """Return the reason why the processor time shows that the reported times are impossible, or None if it does not."""
    if len(batches) < LEAST_BATCHES:
        return None
    if any(batch.claimed_ns < 0 for batch in batches):
        return "the process reports times outside the span between request and reply"
    over = _contradicting(batches, idle, threads, disagreement)
    if len(over) * _DISAGREEING > len(batches):
        claimed, counted = (median(each) for each in zip(*((b.claimed_ns, b.cpu_ns) for b in over), strict=True))
        return (
            f"in {len(over)} of {len(batches)} samples the kernel used more processor time than the calls can have "
            f"taken on {threads} core{'s' * (threads > 1)}: {counted / 1e3:.4g} µs in {claimed / 1e3:.4g} µs"
        )
    return None


def works_in_pauses(pauses: Sequence[Pause], idle: Sequence[Batch], threads: int) -> str | None:
    """Return a description of the processor time that a process used between its batches, when other kernels may be
    timed. Return None if it used too little.

    Processes with several threads are not checked, because the threads of OpenMP wait in a busy loop.
    """
    long = [each for each in pauses if each.wall_ns >= _LEAST_PAUSE_NS]
    if threads > 1 or len(long) < LEAST_BATCHES:
        return None
    over = [each.cpu_ns for each in long if each.cpu_ns > _request_ns(idle)]
    if len(over) * _DISAGREEING <= len(long):
        return None
    where = f"in {len(over)} of {len(long)} pauses, {median(over) / 1e3:.4g} µs each time"
    return f"uses processor time between its calls ({where}), while other kernels may be timed"


def joined(one: Batch, other: Batch) -> Batch:
    """Merge two batches, because the system's accounting of processor time is too coarse for short batches."""
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
    """Return a description of the memory that each call leaks, or None if the memory of the process does not grow with
    the calls.

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


_WORDS, _ORDER, _HELD = 32, 16, 17
"""Number of 8-byte words, index of the order, and index of its confirmation. They have a separate cache line."""

_GO_ON, _HALT, _HOLD, _ONE_MORE = range(4)
"""Orders of the runner to the loop that calls the kernel."""

_LOOKS = 50
"""Number of reads of the count between two slower checks of whether the batch has ended."""


class SharedPace:
    """A memory page shared with one kernel process. The process counts the ended calls of a batch in this page.

    The runner can use the page to end a batch early. The planned number of calls need not be hidden from a kernel,
    because the kernel could find it out anyway.

    Attributes:
        halted: True if the runner ended the batch early. The value is not stored in the page, because a kernel may
            write to the page.
    """

    def __init__(self) -> None:
        self.segment = Segment([8 * _WORDS], writable=True)
        self._words = self.segment.bytes_of(self.segment.rooms[0]).data.cast("Q")
        self.halted = False
        self._fence = Lock()

    @property
    def made(self) -> int:
        """Number of calls of the batch that have ended."""
        return self._words[0]

    def begin(self) -> None:
        """Reset the page for the next batch."""
        self._words[0] = self._words[_ORDER] = self._words[_HELD] = 0
        self.halted = False

    def wait_for(self, calls: int, running: Callable[[], bool]) -> None:
        """Wait until `calls` calls, or the whole batch, have ended."""
        words, looks = self._words, 0
        while words[0] < calls:
            looks += 1
            if looks % _LOOKS == 0 and not running():
                break

    def change_between(self, change: Callable[[], None], running: Callable[[], bool]) -> int:
        """Pause the batch after the running call, call `change`, and end the batch after one more call.

        Args:
            running: function that returns False once the batch has ended. Then `change` is not called.

        Returns:
            The number of calls that had ended before the change. If the batch made more calls, its last call began
            after the change.
        """
        words, looks = self._words, 0
        words[_ORDER] = _HOLD
        while not words[_HELD]:
            looks += 1
            if looks % _LOOKS == 0 and not running():
                words[_ORDER] = _GO_ON
                return words[0]
        change()
        made = words[0]
        with self._fence:  # makes the change visible before the order
            words[_ORDER] = _ONE_MORE
        self.halted = True
        return made

    def halt_after_next(self, running: Callable[[], bool]) -> int:
        """Stop the batch after the next call that starts.

        Args:
            running: function that returns False once the batch has ended.

        Returns:
            An upper bound for the number of calls that started before this request: the ended calls plus one. If the
            batch made more calls than this, its last call started after the request.
        """
        words = self._words  # the following steps take less time than a few short calls
        with self._fence:  # makes this thread's writes visible before the count is read
            pass
        under_way = words[0] + 1
        self.wait_for(under_way, running)
        words[_ORDER] = _HALT
        self.halted = True
        return under_way
