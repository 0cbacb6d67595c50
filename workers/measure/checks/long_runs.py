"""Verifies single calls at random positions in long runs of calls without pauses.

A kernel may count the calls since the last pause, and return stored outputs after more calls than any verified series
has. This check makes runs that are shorter or longer than a timed sample, in the same calling loop. Most calls of a run
use one buffer set. At random positions, a call uses another set with different inputs, and its outputs are verified. A
stored output can therefore be detected after any number of calls.
"""

import math
import time
from collections.abc import Callable, Sequence

import numpy as np

from workers.backends import Buffers, HostSession
from workers.measure.bench import Candidate
from workers.measure.checks.contents import Contents

_MOST_SETS = 16
"""Maximum number of buffer sets in a run. All but one of them are used by one call each."""

_LONGEST = 2.0
"""Number of calls of the longest run, relative to a timed sample."""

_LEAST_RUNS, _MOST_RUNS = 4, 12

_LEAST_SHARE = 1 / 8
"""Number of calls of the shortest run, relative to the longest run. The logarithm of the number is drawn uniformly."""


def judge_long_runs(
    session: HostSession,
    candidate: Candidate,
    sets: Sequence[Buffers],
    contents: Contents,
    *,
    look: Callable[[Sequence[Buffers]], None],
    calls: int,
    rng: np.random.Generator,
    budget_s: float,
) -> int:
    """Verify single calls in runs of calls without pauses, and return the number of verified outputs.

    Args:
        sets: two or more buffer sets that share no memory.
        look: function that verifies the outputs in buffer sets.
        calls: number of calls in a timed sample.
        budget_s: seconds after which no new run begins. The first `_LEAST_RUNS` runs always begin.
    """
    chosen, began_s, judged = sets[:_MOST_SETS], time.monotonic(), 0
    blank, most = sets[0].sibling(), math.ceil(_LONGEST * calls)
    for run in range(_MOST_RUNS):
        if run >= _LEAST_RUNS and time.monotonic() - began_s > budget_s:
            break
        contents.mix(chosen)
        for each in chosen:
            each.rewrite(blank)
        session.visit_timer(candidate.kernel, chosen, math.ceil(most * _LEAST_SHARE ** rng.random())).sample()
        look(chosen)
        judged += len(chosen)
    return judged
