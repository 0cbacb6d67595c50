"""Successive halving: how many trials each variant of a search may have.

A new variant gets `FIRST` trials. While it is among the best third of the variants that had as many trials, it gets
`GROWTH` times as many. Variants arrive at any time, so each is judged when it reaches a rung, against those that
reached it before (asynchronous successive halving, Li et al., arXiv 1810.05934).
"""

import math
from collections.abc import Sequence
from typing import TypeAlias

FIRST = 8
"""Trials of a new variant."""

GROWTH = 3
"""Factor between rungs; one in so many variants goes on."""

Times: TypeAlias = Sequence[float | None]
"""Time in microseconds of each ended trial of a variant, in the order in which they ended; None: not measured."""


def next_rung(trials: int, *, most: int | None) -> int:
    """Return how many trials a variant may have in all once it has used up `trials` and goes on."""
    following = FIRST if trials < FIRST else GROWTH * trials
    return following if most is None else min(following, most)


def goes_on(mine: Times, others: Sequence[Times]) -> bool:
    """True if a variant may have more trials than it had.

    Args:
        mine: times of the variant, as many as it had trials.
        others: times of the other variants of the search, including the family's own implementation.
    """
    rung, best = len(mine), _best(mine)
    if best is None:
        return False
    rivals = [_best(times[:rung]) for times in others if len(times) >= rung]
    faster = sum(time is not None and time < best for time in rivals)
    return faster < math.ceil((len(rivals) + 1) / GROWTH)


def _best(times: Times) -> float | None:
    return min((time for time in times if time is not None), default=None)
