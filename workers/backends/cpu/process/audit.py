"""Checks the times that a kernel process reports, and detects work between its calls.

The module `batch` defines *reported* and *counted* times.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from workers.backends.cpu.process.batch import Batch, Pause, joined

MOST_DISAGREEMENT = 0.01
"""Allowed excess of the counted over the reported time (see `TimeAudit`), as a fraction of the reported time. If the
process may use several cores, the reported time is multiplied by their number. The processor time of the request is
allowed in addition.
"""

DISAGREEMENT_OF_TURNS = 0.1
"""Like `MOST_DISAGREEMENT`, for batches of one call on each of several sets. Such batches cannot be repeated, and need
less precision.
"""

_SPREAD_NS = 4_000
"""Variation, in ns, of the processor time that the system counts for a few identical system calls."""

_COLD_REQUEST = 2.0
"""Factor by which a request may take more processor time than an idle request, because the kernel may have replaced the
contents of the caches. An idle request calls an empty function.
"""

_COLD_REQUEST_NS = 20_000
"""Additional processor time in ns that is allowed per request. On a busy machine, requests of correct kernels took 10
µs more than idle requests.
"""

_WAITS = 5
"""A reply is overdue if its delay is more than this multiple of the duration of the fastest idle request."""

_DISAGREEING = 10
"""A kernel is rejected if, even after repetitions, at least `LEAST_BATCHES` samples and more than one in `_DISAGREEING`
have an impossible time.
"""

_DISAGREEING_TURNS = 2
"""Like `_DISAGREEING`, for batches of one call on each of several sets. The limit can be higher, because the time of
such a batch is at least the counted time without the allowance for requests (`least_ns`). With a load of eight on two
cores, the requests of up to 31 % of the batches of correct kernels took more than this allowance.
"""

_WORKING = 3
"""A kernel is rejected if at least `LEAST_BATCHES` pauses and more than one in `_WORKING` contain too much processor
time. A kernel that works in fewer pauses hardly changes the medians of other kernels. On a virtual machine, 5 of 42
pauses of a correct kernel contained 136 µs.
"""

_LEAST_PAUSE_NS = 1_000_000
"""Shortest pause in ns that is checked for work of the kernel. Another kernel may be timed in such a pause."""

LEAST_BATCHES = 3
"""Minimum number of suspicious batches or pauses before a kernel is rejected. Other programs can disturb a single one:
on a busy machine, one of nine pauses of a correct kernel contained 123 µs of processor time.
"""

LEAST_TURN_NS = 500_000
"""Minimum total duration, in ns, of calls on several sets for a comparison with the counted processor time."""


@dataclass(kw_only=True, eq=False)
class TimeAudit:
    """The batches of one kernel process, and checks of their times.

    The *reported* time of a batch is the duration that the process states. The *counted* time is the processor time of
    the process according to the operating system.

    Attributes:
        threads: number of cores that the process may use simultaneously.
        idle: batches of calls of an empty function, made before the process loaded the candidate.
        samples: timed batches. A suspicious batch is repeated, and only its last repetition is kept.
        turns: batches of one call on each of several buffer sets. Short batches are merged.
        pauses: times between consecutive batches.
    """

    threads: int = 1
    idle: Sequence[Batch] = ()
    samples: list[Batch] = field(default_factory=list)
    turns: list[Batch] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)
    _turn: Batch | None = None

    @property
    def recorded(self) -> int:
        """Number of recorded batches."""
        return len(self.samples) + len(self.turns)

    def add_turn(self, batch: Batch) -> None:
        """Record a batch of one call on each set, merged with earlier batches if it is too short to be checked."""
        self._turn = batch if self._turn is None else joined(self._turn, batch)
        if self._turn.claimed_ns < 0 or self._turn.claimed_ns >= LEAST_TURN_NS:
            self.turns.append(self._turn)
            self._turn = None

    def contradicts(self, batch: Batch) -> bool:
        """Return True if a batch used more processor time than its reported duration permits.

        The system counts the processor time, and the kernel process reports the duration. A large excess means that the
        process has a wrong clock, or used more cores than it may. The process cannot change the counted time, and other
        programs do not add to it. The counted time includes the handling of the request that starts the batch, which
        has no upper bound, so the result may be True for a short batch of a correct kernel.
        """
        return bool(self._contradicting([batch], MOST_DISAGREEMENT))

    def least_ns(self, batch: Batch) -> float:
        """Return the shortest duration of a batch's calls, in ns, that agrees with the counted time.

        The result is 0 for a process without idle batches, and for a batch that is too short for a statement.
        """
        if not self.idle:
            return 0.0
        counted_ns = batch.cpu_ns - self._waiting_actively_ns(batch) - self._request_ns * batch.requests
        return max(0.0, counted_ns) / (self.threads * (1 + MOST_DISAGREEMENT))

    def overdue(self, batch: Batch) -> bool:
        """Return True if the reply took much longer than the reported time plus the time of a request without work.

        The time in which the processes waited for a core is subtracted, because other programs can delay replies by
        milliseconds. They can also cause the remaining delay, so a single overdue batch does not count as evidence.
        """
        waited_ns = min(each.wall_ns - each.claimed_ns for each in self.idle) + _SPREAD_NS
        unexplained_ns = batch.wall_ns - batch.waiting_ns - batch.claimed_ns * (1 + MOST_DISAGREEMENT)
        return unexplained_ns > _WAITS * waited_ns

    def worth_repeating(self, batch: Batch) -> bool:
        """Return True if the reported time of a batch is suspicious, but other programs may be the cause.

        Other programs disturb single batches, while a wrong clock affects every batch. The result is therefore False if
        `samples` already contains enough suspicious batches to reject the kernel. For an overdue batch, the result is
        also False if `samples` contains a batch that is not overdue, because the kernel is then not rejected for
        overdue batches.
        """
        if self.contradicts(batch):
            return len(self._contradicting(self.samples, MOST_DISAGREEMENT)) < LEAST_BATCHES
        return self.overdue(batch) and len(self.samples) < LEAST_BATCHES and all(map(self.overdue, self.samples))

    def contradiction(self) -> str | None:
        """Return the reason why the reported times are impossible, or None if they are plausible.

        The counted time does not reveal a kernel that sleeps. If the process does not report the time of sleeping, all
        its replies are overdue.
        """
        if overuse := self.overused(self.samples, MOST_DISAGREEMENT, _DISAGREEING):
            return overuse
        if len(self.samples) >= LEAST_BATCHES and all(map(self.overdue, self.samples)):
            times = ((each.claimed_ns, each.wall_ns) for each in self.samples)
            claimed, passed = (median(each) for each in zip(*times, strict=True))
            return f"the process reports {claimed / 1e3:.4g} µs per sample, but {passed / 1e3:.4g} µs passed"
        return self.overused(self.turns, DISAGREEMENT_OF_TURNS, _DISAGREEING_TURNS)

    def overused(self, batches: Sequence[Batch], disagreement: float, one_in: int) -> str | None:
        """Return the reason why the counted times show that the reported times are impossible, or None.

        Args:
            disagreement: allowed excess of the counted time, as a fraction of the reported time.
            one_in: the times are impossible if more than one in `one_in` batches exceed the allowed time.
        """
        if len(batches) < LEAST_BATCHES:
            return None
        if any(batch.claimed_ns < 0 for batch in batches):
            return "the process reports times outside the interval between request and reply"
        over = self._contradicting(batches, disagreement)
        if _too_many(over, batches, one_in):
            claimed, counted = (median(each) for each in zip(*((b.claimed_ns, b.cpu_ns) for b in over), strict=True))
            return (
                f"in {len(over)} of {len(batches)} samples the kernel used more processor time than the calls can have "
                f"taken on {self.threads} core{'s' * (self.threads > 1)}: {counted / 1e3:.4g} µs in "
                f"{claimed / 1e3:.4g} µs"
            )
        return None

    def works_in_pauses(self) -> str | None:
        """Return a description of the fault if the kernel uses processor time between its batches, else None.

        Other kernels may be timed in these pauses. Processes without idle batches are not checked. Neither are
        processes with several threads, because OpenMP threads wait in a busy loop.
        """
        long = [each for each in self.pauses if each.wall_ns >= _LEAST_PAUSE_NS]
        if not self.idle or self.threads > 1:
            return None
        request_ns = self._request_ns
        over = [each.cpu_ns for each in long if each.cpu_ns > request_ns]
        if not _too_many(over, long, _WORKING):
            return None
        where = f"in {len(over)} of {len(long)} pauses, {median(over) / 1e3:.4g} µs each time"
        return f"uses processor time between its calls ({where}), while other kernels may be timed"

    def _contradicting(self, batches: Sequence[Batch], disagreement: float) -> list[Batch]:
        request_ns, allowed = self._request_ns, self.threads * (1 + disagreement)
        return [
            each
            for each in batches
            if each.cpu_ns - allowed * each.claimed_ns - self._waiting_actively_ns(each) > request_ns * each.requests
        ]

    @property
    def _request_ns(self) -> float:
        """Allowed processor time of a request in addition to its calls, in ns."""
        return _COLD_REQUEST * median(each.cpu_ns - each.claimed_ns for each in self.idle) + _COLD_REQUEST_NS

    def _waiting_actively_ns(self, batch: Batch) -> int:
        """Return the processor time in ns that OpenMP threads may use in busy loops before and after the calls."""
        return (self.threads - 1) * max(0, batch.wall_ns - batch.claimed_ns)


def _too_many(suspicious: Sequence[object], checked: Sequence[object], one_in: int) -> bool:
    """Return True if at least `LEAST_BATCHES` and more than one in `one_in` batches or pauses are suspicious."""
    return len(suspicious) >= LEAST_BATCHES and len(suspicious) * one_in > len(checked)
