"""Successive halving: the number of trials that each variant of a search may have.

A new variant gets `FIRST` trials. While it is among the best third of the variants that had as many trials, it gets
`GROWTH` times as many. Variants arrive at any time, so each is judged when it reaches a rung, against those that
reached it before (asynchronous successive halving, Li et al., arXiv 1810.05934).
"""

import math
from collections.abc import Sequence
from typing import TypeAlias

FIRST = 8
"""Number of trials of a new variant."""

GROWTH = 3
"""Factor between rungs; one in this many variants continues."""

Times: TypeAlias = Sequence[float | None]
"""Time in microseconds of each ended trial of a variant, in the order in which they ended; None: not measured."""


def next_rung(trials: int, *, most: int | None) -> int:
    """Return the total trials that a variant may have when it has used up `trials` and continues."""
    following = FIRST if trials < FIRST else GROWTH * trials
    return following if most is None else min(following, most)


def goes_on(mine: Times, others: Sequence[Times]) -> bool:
    """Return True if a variant may have more trials.

    Args:
        mine: times of the variant, one per trial.
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
