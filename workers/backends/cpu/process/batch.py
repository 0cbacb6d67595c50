"""Batches of calls in a kernel process, and checks that their reported times are possible.

*Reported* times are from the kernel process, which a kernel can manipulate. *Counted* times are processor times from
the operating system.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from threading import Lock

from workers.backends.cpu.segment import Segment

MOST_DISAGREEMENT = 0.01
"""Allowed excess of the counted time over the reported time, as a fraction of the reported time, in addition to the
processor time of the request.
"""

DISAGREEMENT_OF_TURNS = 0.1
"""Like `MOST_DISAGREEMENT`, for batches of one call on each of several sets. Such batches cannot be repeated, and need
less precision.
"""

_SPREAD_NS = 4_000
"""Variation in ns of the counted time of the same few system calls."""

_COLD_REQUEST = 2.0
"""Factor by which the processor time of a request may exceed that of an idle request, because the kernel replaced the
contents of the caches. An idle request calls an empty function.
"""

_COLD_REQUEST_NS = 20_000
"""Processor time in ns that is allowed in addition per request. On a busy machine, requests of correct kernels took 10
µs more than idle requests.
"""

_WAITS = 5
"""A reply is overdue if it is late by more than this multiple of the duration of the fastest idle request."""

_DISAGREEING = 10
"""One batch in `_DISAGREEING` may have an impossible time even after repetitions."""

_LEAST_PAUSE_NS = 1_000_000
"""Shortest pause in ns in which another kernel may have been timed."""

LEAST_BATCHES = 3
"""Minimum number of batches for rejecting a kernel."""

_LEAST_LEAK_BYTES = 16
"""Growth of the memory in bytes per batch that counts as a leak. malloc never allocates fewer bytes."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Consecutive calls, timed by the kernel process and by the runner.

    Attributes:
        calls: number of calls.
        claimed_ns: duration that the process reported, in ns, or -1 if the reported start or end lies outside the
            interval between request and reply.
        wall_ns: time between the runner's request and the reply, in ns.
        cpu_ns: processor time of the process between request and reply, as counted by the operating system, in ns.
        changes: description of the process state that the calls changed and did not restore, or None.
        heap_bytes: size of the heap of the process after the calls.
        mapped_bytes: size of the process's memory after the calls, and size of its private writable part. Empty if
            unknown.
        restored_ns: part of `claimed_ns` in which arguments were restored between calls.
        waiting_ns: part of `wall_ns` in which this process or the kernel process was ready but had no core, or 0 if
            unknown.
        requests: number of requests that made the calls.
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
    """Time between two batches without a request in between, and the kernel process's processor time in it, in ns."""

    wall_ns: int
    cpu_ns: int


def contradicts(batch: Batch, idle: Sequence[Batch], threads: int) -> bool:
    """Return True if the batch cannot have used its counted processor time within its reported time.

    The process cannot change the counted time, and other programs do not add to it. If the counted time is much longer
    than the reported time, the process has a wrong clock or used more cores than it may.

    The request itself also takes processor time, which depends on caches and other programs and has no upper bound. The
    result may therefore be True for a short batch of a correct kernel.

    Args:
        idle: batches of calls of an empty function, which the same process made before it loaded the candidate.
        threads: number of cores that the process may use at once.
    """
    return bool(_contradicting([batch], idle, threads, MOST_DISAGREEMENT))


def _contradicting(batches: Sequence[Batch], idle: Sequence[Batch], threads: int, disagreement: float) -> list[Batch]:
    """Return the batches whose counted time is too long. See `MOST_DISAGREEMENT` for `disagreement`."""
    request_ns = _request_ns(idle)
    allowed = threads * (1 + disagreement)
    return [
        each
        for each in batches
        if each.cpu_ns - allowed * each.claimed_ns - _waiting_actively_ns(each, threads) > request_ns * each.requests
    ]


def _request_ns(idle: Sequence[Batch]) -> float:
    """Return the processor time that a request may take, in ns."""
    return _COLD_REQUEST * median(each.cpu_ns - each.claimed_ns for each in idle) + _COLD_REQUEST_NS


def _waiting_actively_ns(batch: Batch, threads: int) -> int:
    """Return the processor time in ns that threads of OpenMP may use before and after the timed calls.

    They wait for the next call in a busy loop.
    """
    return (threads - 1) * max(0, batch.wall_ns - batch.claimed_ns)


def overdue(batch: Batch, idle: Sequence[Batch]) -> bool:
    """Return True if the reply took much longer than the reported time plus the time of an idle request.

    Other programs can delay replies by milliseconds. The counted time in which the processes waited for a core is
    subtracted. Other programs can also cause the remaining delay, so a single overdue batch proves nothing.
    """
    waited_ns = min(each.wall_ns - each.claimed_ns for each in idle) + _SPREAD_NS
    unexplained_ns = batch.wall_ns - batch.waiting_ns - batch.claimed_ns * (1 + MOST_DISAGREEMENT)
    return unexplained_ns > _WAITS * waited_ns


def worth_repeating(batch: Batch, ledger: Sequence[Batch], idle: Sequence[Batch], threads: int) -> bool:
    """Return True if the reported time of a batch is suspicious, but other programs may be the cause.

    Other programs disturb single batches, while a wrong clock affects every batch. Therefore the result is False once
    `ledger` contains enough suspicious batches to reject the kernel.

    Args:
        ledger: the batches that were accepted so far, after their repetitions.
    """
    if contradicts(batch, idle, threads):
        return len(_contradicting(ledger, idle, threads, MOST_DISAGREEMENT)) < LEAST_BATCHES
    return overdue(batch, idle) and len(ledger) < LEAST_BATCHES and all(overdue(each, idle) for each in ledger)


def contradicted(batches: Sequence[Batch], idle: Sequence[Batch], threads: int) -> str | None:
    """Return the reason why the reported times are impossible, or None if they are plausible.

    A kernel that sleeps uses no processor time. If its process does not report the time of sleeping, all its replies
    are overdue.
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
    """Return the reason why the reported times are impossible according to the counted time, or None."""
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
    """Return a description of the fault if a kernel works between its batches, while other kernels may be timed.

    Return None if there is no fault. Processes with several threads are not checked, because threads of OpenMP wait in
    a busy loop.
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
    """Merge two short batches, because the resolution of counted processor time is too coarse for them."""
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
    """Return a description of the leak if the memory of the process grows in most batches, else None."""
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
"""Number of 8-byte words in the page, index of the runner's command, and index of the process's confirmation. Command
and confirmation are in a separate cache line.
"""

_GO_ON, _HALT, _HOLD, _ONE_MORE = range(4)
"""Commands of the runner to the loop that calls the kernel."""

_LOOKS = 50
"""Number of reads of the call count between two checks of whether the batch has ended, which are slower."""


class SharedPace:
    """A memory page that is shared with one kernel process.

    The process counts the ended calls of a batch in this page. The runner can end a batch early by writing a command
    into the page.

    Attributes:
        halted: True if the runner ended the batch early. The value is not in the page, because a kernel could change it
            there.
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
        with self._fence:  # memory barrier: the change becomes visible before the command
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
        words = self._words
        with self._fence:  # memory barrier: this thread's writes become visible before the count is read
            pass
        under_way = words[0] + 1
        self.wait_for(under_way, running)
        words[_ORDER] = _HALT
        self.halted = True
        return under_way
