"""Overwrite check: compares calls on outputs that already contain the expected result with calls on poison.

Poison is a byte pattern that no correct output has. In a timed loop, the outputs contain the expected result from the
second call on. A kernel may find the result there and skip work. Such a kernel gives correct results in all other
checks, and is fast only while it is timed. The check calls the kernel once on each of several buffer sets in rotation.
Before each sample, outside the timed span, the outputs of all sets are filled with the expected result or with poison.
The two kinds of samples differ only in the contents of the outputs.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from evo.trial.results import OverwriteCheck
from workers.backends import Buffers, Timer
from workers.build.kernel import Argument
from workers.measure.checks.contents import Contents
from workers.measure.timing import Moment, undisturbed, undisturbed_sample

MOST_SETS = 128
CACHE_SHARE = 0.5
"""Fraction of the cache of a core or GPU that the buffer sets of hot calls may fill. If they fill more, other programs
affect the times.
"""

LEAST_ROUNDS, USUAL_ROUNDS, MOST_ROUNDS = 6, 24, 240
"""Minimum, usual and maximum number of rounds. With 6 rounds, the 95 % interval of the median is the range of the
samples. The usual number is exceeded while the interval is too wide for a decision.
"""

MIXED_SETS, LEAST_MIXED_CALLS = 64, 16
"""Maximum number of calls with changing contents per sample, and minimum number of such calls in total. A kernel that
returns a stored result in a random fifth of the calls escapes 64 calls with probability 0.8 ** 64 < 1e-6. A kernel that
does so in every n-th call is always detected.
"""

_MIXED_BYTES = 64 << 20
"""Maximum total size in bytes of buffer sets that do not share inputs. A pair of sets may be larger."""

PATIENCE = 3
"""The time limit is multiplied by this factor while the result is too noisy for a decision."""


def ring_sets(arguments: Iterable[Argument], calls: int, cache_bytes: float) -> int:
    """Return the number of buffer sets that hot calls use in rotation. The sets share their inputs.

    There is one set for each call of a sample, but at least 2 sets, at most `MOST_SETS`, and no more than fit in the
    cache together with the inputs.
    """
    sizes = [(each.bytes, each.written) for each in arguments if each.role != "scalar"]
    written_bytes = sum(size for size, written in sizes if written)
    room_bytes = CACHE_SHARE * cache_bytes - sum(size for size, written in sizes if not written)
    return max(2, min(calls, int(room_bytes / max(written_bytes, 1)), MOST_SETS))


def mixed_sets(bytes_held: int) -> int:
    """Return the number of buffer sets (at least 2) that calls with changing inputs use in rotation.

    Args:
        bytes_held: size of one set in bytes, including inputs.
    """
    return max(2, min(MIXED_SETS, _MIXED_BYTES // max(bytes_held, 1)))


def judge_mixed(
    turn: Timer,
    sets: Sequence[Buffers],
    contents: Contents,
    *,
    look: Callable[[Sequence[Buffers]], None],
    calls: int,
    budget_s: float,
) -> None:
    """Call a kernel on buffer sets whose inputs differ from call to call, and verify every output.

    In a timed loop, the same inputs repeat, so a kernel could answer some calls with stored results. In this check, no
    two consecutive calls have the same expected output.

    Args:
        turn: timer that calls the kernel once on each of `sets`.
        look: function that verifies the outputs in buffer sets.
        calls: number of calls after which the check ends.
        budget_s: seconds after which no new sample begins. At least `LEAST_MIXED_CALLS` calls are always made.
    """
    blank, began_s, made = sets[0].sibling(), time.monotonic(), 0
    while made < LEAST_MIXED_CALLS or (made < calls and time.monotonic() - began_s < budget_s):
        contents.mix(sets)
        for each in sets:
            each.rewrite(blank)
        turn.sample()
        look(sets)
        made += len(sets)


class Filled:
    """A timer that calls a kernel once on each buffer set, and overwrites outputs and workspaces before each sample.

    Args:
        turn: timer that calls the kernel on the sets.
        sets: buffer sets of the calls.
        sources: buffer sets whose outputs and workspaces are copied to the first of `sets`, one after another. The
            contents of the last source are then copied to the other `sets`. The earlier sources are copied only so that
            all kinds of samples access the same memory before they begin.
        look: function that verifies the outputs in buffer sets.
        left: sets whose outputs are verified after each sample. If None, all sets are verified.
    """

    def __init__(
        self,
        turn: Timer,
        sets: Sequence[Buffers],
        sources: Sequence[Buffers],
        look: Callable[[Sequence[Buffers]], None],
        *,
        left: Sequence[Buffers] | None = None,
    ) -> None:
        self._turn, self._sets, self._sources, self._look = turn, sets, sources, look
        self._left = sets if left is None else left
        self.calls, self.last = turn.calls, turn.last

    def sample(self) -> float:
        for source in self._sources:
            self._sets[0].rewrite(source)
        for each in self._sets[1:]:
            each.rewrite(self._sets[0])
        taken_us = self._turn.sample()
        self._look(self._left)
        return taken_us


def overwrite_check(
    turn: Timer,
    sets: Sequence[Buffers],
    sources: Mapping[str, Buffers],
    *,
    look: Callable[[Sequence[Buffers]], None],
    moment: Moment,
    budget_s: float,
    undecided: Callable[[OverwriteCheck], bool],
    repeated: Timer | None = None,
) -> OverwriteCheck:
    """Return samples of calls on outputs with the expected result and on outputs with poison, in interleaved rounds.

    Args:
        turn: timer that calls the kernel once on each of `sets`.
        sources: the buffer sets ``answered`` and ``poisoned``. Their outputs and workspaces are copied to `sets` before
            a sample.
        look: function that verifies the outputs of the sets after each sample.
        budget_s: seconds after which no new round begins. The first `LEAST_ROUNDS` rounds always begin. The limit is
            `PATIENCE` times as long while `undecided` returns True.
        undecided: function that returns True while the result is too imprecise to decide.
        repeated: timer that calls the kernel the same number of times on the first set. None if repeated calls are not
            timed.
    """
    right, blank = sources["answered"], sources["poisoned"]
    orders = {"answered": [blank, right], "poisoned": [right, blank]}
    timers = {name: Filled(turn, sets, order, look) for name, order in orders.items()}
    if repeated is not None:
        timers["repeated"] = Filled(repeated, sets, [right, blank], look, left=sets[:1])
    taken: dict[str, list[float]] = {name: [] for name in timers}
    for timer in timers.values():
        timer.sample()  # the first call is slow, because it accesses new memory

    def found() -> OverwriteCheck:
        series = {name: moment.timing(samples_us, turn.calls) for name, samples_us in taken.items()}
        answered, poisoned, again = series["answered"], series["poisoned"], series.get("repeated")
        return OverwriteCheck(answered=answered, poisoned=poisoned, repeated=again)

    with undisturbed():
        for index in _rounds(budget_s, lambda: undecided(found())):
            names = sorted(timers)
            for name in names[index % len(names) :] + names[: index % len(names)]:
                taken[name].append(undisturbed_sample(timers[name]))
    return found()


def _rounds(budget_s: float, undecided: Callable[[], bool]) -> Iterable[int]:
    start = time.monotonic()
    for index in range(MOST_ROUNDS):
        spent_s = time.monotonic() - start
        enough = index >= USUAL_ROUNDS or spent_s > budget_s
        if index >= LEAST_ROUNDS and enough and (spent_s > PATIENCE * budget_s or not undecided()):
            return
        yield index
