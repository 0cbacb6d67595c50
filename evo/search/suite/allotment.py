"""Share of a budget: the call whose search promises the largest gain gets the next slice."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evo.search.suite.suite import Goal

UNKNOWN = 0.05
"""Expected relative gain of a slice of a search without results."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Course of one call's search.

    Attributes:
        weight: weight of the call in its suite.
        best: best time or cost at the end of each slice so far, in order; None while nothing was measured.
        open: False once the search can take no further slice.
    """

    weight: float
    best: tuple[float | None, ...] = ()
    open: bool = True


def expected_gain(progress: Progress, goal: Goal) -> float:
    """Return the expected saving of one more slice: µs for ``time``, else log of the ratio; ``worst`` ignores weights.

    The n-th slice of a search gains about as much as the last one times (n - 1) / n, since the best of a sample
    improves with the logarithm of its size. The last slices are averaged with a prior, so one slice without progress
    does not end a search, and several without any do.
    """
    slices, weight = len(progress.best), 1.0 if goal == "worst" else progress.weight
    times = [each for each in progress.best if each is not None]
    if not times:
        return float(weight * UNKNOWN * 0.5**slices)
    gains = [math.log(before / after) for before, after in itertools.pairwise(times)]
    latest = gains[-2:]
    seen = (UNKNOWN / slices + sum(latest)) / (1 + len(latest))
    expected = seen * slices / (slices + 1)
    return weight * expected * (times[-1] if goal == "time" else 1.0)


def next_call(courses: Mapping[str, Progress], goal: Goal) -> str | None:
    """Return the call whose search gets the next slice; None if none can take one.

    Searches without a slice come first, in order, because their gains are unknown and each result helps its neighbours.
    """
    candidates = {name: course for name, course in courses.items() if course.open}
    fresh: Sequence[str] = [name for name, course in candidates.items() if not course.best]
    if fresh:
        return fresh[0]
    return max(candidates, key=lambda name: expected_gain(candidates[name], goal), default=None)
