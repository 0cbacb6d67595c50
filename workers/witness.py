"""Whether every timed call does all its work: calls on outputs that hold the answer, beside calls on poisoned ones.

In a timed loop every call but the first finds its own answer in its outputs. A kernel that looks for it there and then
does less is right each time it is judged, and fast only while it is timed. So calls go once around a ring of buffer
sets, each on outputs of its own, which are all filled before, outside the timed span: with the answer, or with poison.
Kernel, launches, memory and what was done to it before are the same; what the outputs hold is the only difference.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from evo.job import Witness
from evo.promotion import straddles
from workers.devices import Buffers, Timer
from workers.kernel import Argument
from workers.timing import Moment, undisturbed, undisturbed_sample

MOST_SETS = 256
MOST_BYTES = 256 << 20
"""Of the outputs and workspaces of a hot ring."""

_MEMORY_SHARE = 4
LEAST_ROUNDS, USUAL_ROUNDS, MOST_ROUNDS = 6, 24, 240
"""Of 6 rounds the 95 % interval of a median is their range; more than usual are taken while it is too wide to tell."""

PATIENCE = 3
"""So many times as long as usual may be spent on what is too noisy to tell."""


def ring_sets(arguments: Iterable[Argument], calls: int, memory_bytes: int) -> int:
    """How many sets a hot ring has: as many as calls make a sample, within reason; at least 2.

    Args:
        memory_bytes: what the runner may allocate, of which the ring takes a part.
    """
    held = sum(each.bytes for each in arguments if each.role in ("output", "workspace"))
    affordable = min(MOST_BYTES, memory_bytes // _MEMORY_SHARE) // max(held, 1)
    return max(2, min(calls, affordable, MOST_SETS))


class Filled:
    """A timer of one turn of the ring, whose outputs and workspaces are overwritten with those of `source` before."""

    def __init__(self, turn: Timer, sets: Sequence[Buffers], source: Buffers) -> None:
        self._turn, self._sets, self._source = turn, sets, source
        self.calls = turn.calls

    def sample(self) -> float:
        for each in self._sets:
            each.rewrite(self._source)
        return self._turn.sample()


def witness(
    turn: Timer, sets: Sequence[Buffers], sources: Mapping[str, Buffers], *, moment: Moment, budget_s: float
) -> Witness:
    """Pairs of samples in turns, until their ratio is known well enough or the time is up.

    Args:
        turn: calls the kernel once on each of `sets`.
        sources: ``answered`` and ``poisoned``: further sets, whose outputs and workspaces hold what is to be found.
        budget_s: after it no further round begins, except for the first `LEAST_ROUNDS`; `PATIENCE` times as much where
            their ratio is not known well enough.
    """
    timers = {name: Filled(turn, sets, source) for name, source in sources.items()}
    taken: dict[str, list[float]] = {name: [] for name in timers}
    for timer in timers.values():
        timer.sample()  # first touch

    def found() -> Witness:
        series = {name: moment.timing(samples_us, turn.calls) for name, samples_us in taken.items()}
        return Witness(answered=series["answered"], poisoned=series["poisoned"])

    with undisturbed():
        for place in _rounds(budget_s, lambda: straddles(found())):
            for name in sorted(timers, reverse=place % 2 == 1):
                taken[name].append(undisturbed_sample(timers[name]))
    return found()


def _rounds(budget_s: float, undecided: Callable[[], bool]) -> Iterable[int]:
    start = time.monotonic()
    for place in range(MOST_ROUNDS):
        spent_s = time.monotonic() - start
        enough = place >= USUAL_ROUNDS or spent_s > budget_s
        if place >= LEAST_ROUNDS and enough and (spent_s > PATIENCE * budget_s or not undecided()):
            return
        yield place
