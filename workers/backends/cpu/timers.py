"""Timers of kernel calls in a kernel process, and of function calls in this process."""

import math
import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice

import numpy as np
from numpy.typing import NDArray

from evo.export.loader.float_control import FloatControl
from evo.text.limits import SHORTEST_US
from workers.backends.cpu.kernel_process import KernelProcess
from workers.backends.cpu.memory import HostBuffers
from workers.backends.cpu.process.messages import MOST_ORDERS

MINIMUM_SAMPLE_S = 5e-4
"""Minimum duration of a sample in seconds, far above the clock's resolution. A sample has as many calls as it needs to
reach this duration.
"""

_MAXIMUM_SAMPLE_S = 8e-3
"""Maximum duration in seconds of a sample with more than one call, including the time for restoring arguments. If the
counted processor time contradicts the reported time of a sample, the sample is repeated with twice as many calls, so
that the processor time of the request is a smaller part of the counted time. The number of calls is doubled only if the
repeated sample stays below this maximum.
"""

_PROLONGED = 3
"""Once the samples that needed more calls outnumber the other samples by more than this number, all later samples get
more calls. Other programs disturb only single samples.
"""

_CALIBRATIONS = 3
"""Number of samples that determine the calls per sample. The shortest is used, because others may be interrupted."""

MOST_ATTEMPTS = 12
"""Maximum number of attempts to take a sample. An attempt is repeated if its reported time is suspicious. With eight
busy programs on two cores, six in ten replies for correct kernels were late, but all twelve attempts were late only
twice in a thousand samples."""

_RESTORE_FACTOR, _RESTORE_ROUNDS, _RESTORED_SETS = 3, 3, 8
"""Restoring arguments may take at most `_RESTORE_FACTOR` times as long in a kernel process as in this process. The time
in this process is that of the fastest of `_RESTORE_ROUNDS` rounds, with at least `_RESTORED_SETS` sets per round."""

_FURTHER_SETS = 16
"""Number of buffer sets that get page-table entries in addition to the sets of the next calls."""


class CallTimer:
    """Times functions without arguments in this process, i.e. baselines and the anchor (a small fixed kernel).

    Floating-point modes are restored after each sample.
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
        return max(took, calls * SHORTEST_US * 1e-6)


class KernelTimer:
    """Times calls in a kernel process on one or more buffer sets.

    Unless `once` is True, the order of several sets is random. A kernel can therefore not predict the set of the next
    call and load that set into the cache in advance.

    Args:
        rng: random generator that draws the orders. A kernel must not be able to predict its numbers.
        once: True to call the kernel exactly once on each set in each sample, in a fixed order, even if the sample is
            then very short. The callee-saved registers are then checked after each call. `calls` is ignored.
        calls: number of calls per sample. If 0, the number is calibrated so that a sample has the minimum duration.
        visits: True to repeat calls on the first set, with one call per sample, at a random position, on each other
            set. `calls` must then be at least the number of sets, and at most `MOST_ORDERS`.
        behind: True to restore the arguments of a set after the call on the next set, so that these arguments leave
            the caches. False to restore them before the call, so that the outputs of all sets are kept. With `once`,
            `visits` or a single set, arguments are always restored before the call.
    """

    def __init__(
        self,
        process: KernelProcess,
        sets: Sequence[HostBuffers],
        *,
        rng: np.random.Generator,
        once: bool = False,
        calls: int = 0,
        visits: bool = False,
        behind: bool = True,
    ) -> None:
        self._process, self._sets, self._last, self._behind = process, sets, 0, behind and not visits
        self._orders: SetOrders | Visits | None = None
        if len(sets) > 1 and not once:
            self._orders = Visits(len(sets), rng) if visits else SetOrders(len(sets), rng)
        self._table, self._once, self._fixed = process.bind(sets), once, calls > 0
        self._populated: set[int] = set()
        self._prolonged, self._call_us = 0, MINIMUM_SAMPLE_S * 1e6
        self._restore_ns = _most_restore_ns(sets) if self._table.restored else 0.0
        if once:
            self.calls = len(sets)
            return
        self.calls = calls or calibrated(self._weighed)

    def sample(self) -> float:
        taken_s = self._take(self.calls)
        if self._once or self._fixed:  # not repeated: the calls have changed the outputs, or need this exact number
            self._process.note(self._batch)
            if self._once:
                self._process.audit.add_turn(self._batch)
            least_s = (self._process.audit.least_ns(self._batch) - self._restore_ns * self.calls) * 1e-9
            return max(taken_s, least_s) / self.calls * 1e6
        calls = self.calls
        for _ in range(MOST_ATTEMPTS - 1):
            if not self._process.audit.worth_repeating(self._batch):
                break
            if self._process.audit.contradicts(self._batch) and self._spent_s < _MAXIMUM_SAMPLE_S / 2:
                calls *= 2
            taken_s = self._take(calls)
        self._process.note(self._batch)
        self._process.audit.samples.append(self._batch)
        self._prolonged += 1 if calls > self.calls else -1
        if self._prolonged > _PROLONGED:
            self.calls = calls
        return taken_s / calls * 1e6

    def warm_up(self, span_us: float) -> None:
        """Call the kernel for at least `span_us` microseconds, in few requests.

        The time for restoring arguments counts as part of this time, because restoring also keeps the core busy.
        """
        spent_us = 0.0
        while spent_us < span_us:
            self._take(max(self.calls, math.ceil((span_us - spent_us) / self._call_us)))
            self._process.note(self._batch)
            spent_us += self._spent_s * 1e6

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
            behind=drawn and self._behind,
            guarded=self._once,
            order=order.tobytes() if drawn else b"",
        )
        if not (self._once or self._fixed):  # the tables of other timers change the size of the process's memory
            self._process.growth.note((self._batch.heap_bytes, *self._batch.mapped_bytes))
        self._last = int(order[(calls - 1) % len(order)])
        restored_ns = min(self._batch.restored_ns, self._restore_ns * calls)
        self._spent_s = max(self._batch.claimed_ns, 1) * 1e-9
        self._call_us = self._spent_s * 1e6 / calls
        return max((self._batch.claimed_ns - restored_ns) * 1e-9, calls * SHORTEST_US * 1e-6)

    def _weighed(self, calls: int) -> float:
        """Return the duration in seconds from which the calibration derives the number of calls per sample.

        This is the duration of the calls, but at least a fixed fraction of the total duration, which includes the
        restoring of arguments. Without this minimum, samples of a kernel that is far faster than restoring its
        arguments would take seconds.
        """
        return max(self._take(calls), self._spent_s * MINIMUM_SAMPLE_S / _MAXIMUM_SAMPLE_S)

    def _populate(self, order: NDArray[np.uint32], calls: int) -> None:
        """Create page-table entries for the sets of the next calls, and for some sets of later calls.

        Creating the entries of all sets together would take too long. A kernel can find out which sets have entries.
        The additional sets therefore hide which set is next.
        """
        if len(self._populated) == len(self._sets) or self._populated.issuperset(used := set(order[:calls].tolist())):
            return
        further = () if self._orders is None else self._orders.upcoming(_FURTHER_SETS).tolist()
        missing = sorted(used.union(further) - self._populated)
        self._process.populate(self._table, missing)
        self._populated.update(missing)


class SetOrders:
    """Random orders in which calls use the buffer sets. Each order contains every set once.

    The two halves of the sets are shuffled separately. Between two calls on the same set, at least all sets of the
    other half are therefore used. They evict the set from all caches that are smaller than half of the sets.
    """

    def __init__(self, sets: int, rng: np.random.Generator) -> None:
        self._halves, self._rng = np.array_split(np.arange(sets, dtype=np.uint32), 2), rng
        self._due = np.empty(0, np.uint32)

    def next(self, calls: int) -> NDArray[np.uint32]:
        """Return the indices of the sets that the next calls use, shape (min(calls, MOST_ORDERS),).

        A batch with more calls repeats this sequence.
        """
        wanted = min(calls, MOST_ORDERS)
        order = self.upcoming(wanted)
        self._due = self._due[wanted:]
        return order

    def upcoming(self, count: int) -> NDArray[np.uint32]:
        """Return the indices of the sets of the next `count` calls. `next` will return the same sets."""
        while len(self._due) < count:
            self._due = np.concatenate([self._due, *map(self._rng.permutation, self._halves)])
        return self._due[:count]


class Visits:
    """Random orders in which calls use the buffer sets.

    All calls of an order use the first set, except one call at a random position for every other set.
    """

    def __init__(self, sets: int, rng: np.random.Generator) -> None:
        self._sets, self._rng = sets, rng

    def next(self, calls: int) -> NDArray[np.uint32]:
        """Return the indices of the sets that the next calls use, shape (calls,)."""
        order = np.zeros(calls, np.uint32)
        places = self._rng.choice(calls, self._sets - 1, replace=False)
        order[places] = np.arange(1, self._sets, dtype=np.uint32)
        return order

    def upcoming(self, count: int) -> NDArray[np.uint32]:
        """Return the indices of at most `count` sets that later calls use."""
        return np.arange(min(count, self._sets), dtype=np.uint32)


def _most_restore_ns(sets: Sequence[HostBuffers]) -> float:
    """Return the maximum time in ns that may be subtracted from the time of a call for restoring arguments.

    A kernel process reports the time that it needed to restore arguments, and a kernel could increase the reported
    time. The maximum is therefore derived from the time that the same copies take in this process.
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
    take(1)  # the first call is slow, because it accesses new memory
    calls = max(1, math.ceil(MINIMUM_SAMPLE_S / min(take(1), take(1))))
    if calls > 1:  # a single short call takes longer than one in a series
        fastest_s = min(take(calls) for _ in range(_CALIBRATIONS))
        calls = max(1, math.ceil(MINIMUM_SAMPLE_S / (fastest_s / calls)))
    return calls
