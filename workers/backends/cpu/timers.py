"""Timers of calls in a kernel process, and of calls in this process."""

import math
import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice

import numpy as np
from numpy.typing import NDArray

from evo.export.loader.float_control import FloatControl
from workers.backends.cpu.kernel_process import KernelProcess
from workers.backends.cpu.memory import HostBuffers
from workers.backends.cpu.process.messages import MOST_ORDERS

MINIMUM_SAMPLE_S = 5e-4
"""Minimum length of a sample in seconds, far above the clock's resolution and the cost of a call. Calls are repeated to
reach it.
"""

_MAXIMUM_SAMPLE_S = 8e-3
"""Maximum duration in seconds of a sample whose reported time is contradicted. Each repetition has twice as many calls,
because the cost of the request then stays the same while the error of a wrong clock grows.
"""

_PROLONGED = 3
"""If the samples that needed more calls outnumber the remaining samples by this number, all later samples have more
calls. Single samples do not matter, because other programs may have disturbed them.
"""

_CALIBRATIONS = 3
"""Number of samples whose minimum determines the calls per sample. An interrupted sample would give too few calls."""

MOST_ATTEMPTS = 12
"""Attempts at a sample. An attempt that contradicts the system's time accounting is repeated. With eight busy programs
on two cores, six in ten replies to correct kernels were late, but all twelve attempts were late only twice in a
thousand samples.
"""

_RESTORE_FACTOR, _RESTORE_ROUNDS, _RESTORED_SETS = 3, 3, 8
"""Factor by which restoring may be slower in a kernel process than in this process, and number of rounds and of sets
with which the time in this process is measured. The fastest round counts.
"""

_FURTHER_SETS = 16
"""Number of sets for which a kernel process gets page-table entries in addition to the sets of its next calls."""


class CallTimer:
    """Times functions without arguments in this process, namely baselines and the anchor.

    Floating-point modes that a call changed are restored after each sample.
    """

    def __init__(self, calls: Sequence[Callable[[], object]]) -> None:
        self._turn, self._turns, self._made = cycle(calls), len(calls), 0
        self.calls = calibrated(self._take)

    def sample(self) -> float:
        return self._take(self.calls) / self.calls * 1e6

    @property
    def last(self) -> int:
        return (self._made - 1) % self._turns

    def _take(self, calls: int) -> float:
        due = list(islice(self._turn, calls))
        self._made += calls
        modes = FloatControl()
        start = time.perf_counter()
        for call in due:
            call()
        took = time.perf_counter() - start
        modes.restore()
        return max(took, 1e-9)


class KernelTimer:
    """Times calls in a kernel process on one or more buffer sets.

    The order of several sets is drawn at random for each sample. A kernel therefore cannot predict the set of the next
    call and load that set into the cache in advance.

    Args:
        once: True if a sample calls the kernel exactly once on each set, even if such a sample is very short. After
            each of these calls, the registers that a function must restore are compared.
        rng: random generator that draws the orders. A kernel must not be able to predict its numbers.
        calls: number of calls per sample. If 0, the number is calibrated so that a sample has the minimum duration.
    """

    def __init__(
        self,
        process: KernelProcess,
        sets: Sequence[HostBuffers],
        *,
        rng: np.random.Generator,
        once: bool = False,
        calls: int = 0,
    ) -> None:
        self._process, self._sets, self._last = process, sets, 0
        self._orders = SetOrders(len(sets), rng) if len(sets) > 1 and not once else None
        self._table, self._once, self._fixed = process.bind(sets), once, calls > 0
        self._populated: set[int] = set()
        self._prolonged, self._call_us = 0, MINIMUM_SAMPLE_S * 1e6
        self._restore_ns = _most_restore_ns(sets) if self._table.restored else 0.0
        if once:
            self.calls = len(sets)
            return
        self.calls = calls or calibrated(self._take)

    def sample(self) -> float:
        taken_s = self._take(self.calls)
        if self._once:  # a repeated sample would find other outputs
            self._process.note_turn(self._batch)
            return taken_s / self.calls * 1e6
        if self._fixed:  # too short for the system's accounting of time
            self._process.note(self._batch)
            return taken_s / self.calls * 1e6
        calls = self.calls
        for _ in range(MOST_ATTEMPTS - 1):
            if not self._process.worth_repeating(self._batch):
                break
            if self._process.contradicts(self._batch) and taken_s < _MAXIMUM_SAMPLE_S / 2:
                calls *= 2
            taken_s = self._take(calls)
        self._process.note(self._batch)
        self._process.ledger.append(self._batch)
        self._prolonged += 1 if calls > self.calls else -1
        if self._prolonged > _PROLONGED:
            self.calls = calls
        return taken_s / calls * 1e6

    def warm_up(self, span_us: float) -> None:
        """Call the kernel for `span_us` microseconds, in few requests, because each request may wait for a core."""
        spent_us = 0.0
        while spent_us < span_us:
            taken_s = self._take(max(self.calls, math.ceil((span_us - spent_us) / self._call_us)))
            self._process.note(self._batch)
            spent_us += taken_s * 1e6

    @property
    def last(self) -> int:
        return self._last

    def _take(self, calls: int) -> float:
        drawn = self._orders is not None
        order = np.arange(len(self._sets), dtype=np.uint32) if self._orders is None else self._orders.next(calls)
        self._populate(order, calls)
        self._batch = self._process.run(
            self._table,
            calls,
            first=int(order[0]),
            behind=drawn,
            guarded=self._once,
            order=order.tobytes() if drawn else b"",
        )
        self._last = int(order[(calls - 1) % len(order)])
        restored_ns = min(self._batch.restored_ns, self._restore_ns * calls)
        taken_s = max(self._batch.claimed_ns - restored_ns, 1) * 1e-9
        self._call_us = taken_s * 1e6 / calls
        return taken_s

    def _populate(self, order: NDArray[np.uint32], calls: int) -> None:
        """Create page-table entries for the sets that the next calls use, and for some sets of later calls.

        Not all sets get entries at once, because this takes longer than a call for a large cold set, and a quick gate
        uses only some of the sets. A kernel could find out which sets have entries. The sets of later calls hide which
        set is next.
        """
        if len(self._populated) == len(self._sets) or self._populated.issuperset(used := set(order[:calls].tolist())):
            return
        further = () if self._orders is None else self._orders.upcoming(_FURTHER_SETS).tolist()
        missing = sorted(used.union(further) - self._populated)
        self._process.populate(self._table, missing)
        self._populated.update(missing)


class SetOrders:
    """Random orders in which calls use the buffer sets. Each order contains every set once.

    The first and the second half of the sets are shuffled separately. Between two calls on the same set, at least half
    of all sets are therefore used. This removes the set from all caches that are smaller than half of the sets.
    """

    def __init__(self, sets: int, rng: np.random.Generator) -> None:
        self._halves, self._rng = np.array_split(np.arange(sets, dtype=np.uint32), 2), rng
        self._due = np.empty(0, np.uint32)

    def next(self, calls: int) -> NDArray[np.uint32]:
        """Return the buffer set of each of the next calls as indices, shape (min(calls, MOST_ORDERS),). A batch with
        more calls repeats the sequence.
        """
        wanted = min(calls, MOST_ORDERS)
        order = self.upcoming(wanted)
        self._due = self._due[wanted:]
        return order

    def upcoming(self, count: int) -> NDArray[np.uint32]:
        """Return the first sets of the next order, shape (count,). `next` returns them again."""
        while len(self._due) < count:
            self._due = np.concatenate([self._due, *map(self._rng.permutation, self._halves)])
        return self._due[:count]


def _most_restore_ns(sets: Sequence[HostBuffers]) -> float:
    """Return the upper limit of the restoring time that is subtracted from the time of a call, in ns.

    A kernel process reports the time in which it restored arguments. A kernel could make the reported time longer, so
    the limit is derived from the time that the same copies take in this process.
    """
    chosen = list(islice(cycle(sets), max(len(sets), _RESTORED_SETS)))
    taken_ns = []
    for _ in range(_RESTORE_ROUNDS):
        begun = time.perf_counter_ns()
        for buffers in chosen:
            buffers.restore()
        taken_ns.append((time.perf_counter_ns() - begun) / len(chosen))
    return _RESTORE_FACTOR * min(taken_ns)


def calibrated(take: Callable[[int], float]) -> int:
    """Return the number of calls whose total duration is about `MINIMUM_SAMPLE_S`.

    Args:
        take: function that makes a given number of calls and returns their duration in seconds.
    """
    take(1)  # the first call touches new memory
    calls = max(1, math.ceil(MINIMUM_SAMPLE_S / min(take(1), take(1))))
    if calls > 1:  # a single short call takes longer than one in a series
        fastest_s = min(take(calls) for _ in range(_CALIBRATIONS))
        calls = max(1, math.ceil(MINIMUM_SAMPLE_S / (fastest_s / calls)))
    return calls
