"""Successive halving: the number of trials that each variant of a search may have.

A new variant gets `FIRST` trials. While it is among the best third of the variants that had as many trials, it gets
`GROWTH` times as many. Variants arrive at any time, so each is judged when it reaches a rung, against those that
reached it before (asynchronous successive halving, Li et al., arXiv 1810.05934).

When no variant of the search has improved for `STAGNATION` trials, the search widens: new variants and niches without
rivals are tuned further, older variants only if they are the best of their niche. A variant whose binaries all belong
to earlier variants gets no further trials. All of this is a function of the ended trials.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

FIRST = 8
"""Number of trials of a new variant."""

GROWTH = 3
"""Factor between rungs; one in this many variants continues."""

Times: TypeAlias = Sequence[float | None]
"""Time in microseconds of each ended trial of a variant, in the order in which they ended; None: not measured."""


STAGNATION = 3 * FIRST
"""Number of ended trials of all variants without an improvement after which a search widens."""

LEAST_GAIN = 0.01
"""Share of the best time by which a trial must be faster to count as an improvement: less is noise of quick samples."""

REPEATED = 3
"""Number of first trials of a variant after which its binaries are compared with those of earlier variants."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What the ended trials of a variant show.

    Attributes:
        times: see `Times`.
        niche: the mechanisms of its fastest trial; None while no trial was measured.
    """

    times: Times
    niche: tuple[str, ...] | None = None


def next_rung(trials: int, *, most: int | None) -> int:
    """Return the total trials that a variant may have when it has used up `trials` and continues."""
    following = FIRST if trials < FIRST else GROWTH * trials
    return following if most is None else min(following, most)


def goes_on(mine: Standing, others: Sequence[Standing], *, stagnating: bool = False) -> bool:
    """Return True if a variant may have more trials.

    Args:
        others: the other variants of the search, including the family's own implementation.
        stagnating: see `stagnates`.
    """
    rung, best = len(mine.times), _best(mine.times)
    if best is None:
        return False
    rivals = [each for each in others if len(each.times) >= rung]
    if stagnating:
        rivals = [each for each in rivals if each.niche == mine.niche]
    faster = sum(time is not None and time < best for time in (_best(each.times[:rung]) for each in rivals))
    if stagnating:
        return faster == 0 or (rung <= FIRST and faster < math.ceil((len(rivals) + 1) / 2))
    return faster < math.ceil((len(rivals) + 1) / GROWTH)


def stagnates(times: Times) -> bool:
    """Return True if none of the last `STAGNATION` trials of a search improved its best time.

    Args:
        times: of all variants together, in the order in which their trials ended.
    """
    best, since = math.inf, 0
    for time in times:
        improved = time is not None and time < best * (1 - LEAST_GAIN)
        best, since = (best if time is None else min(best, time)), 0 if improved else since + 1
    return since >= STAGNATION


def repeats(mine: Sequence[str | None], earlier: Collection[str]) -> bool:
    """Return True if a variant is a copy: each of its first trials has a binary that earlier variants have.

    Args:
        mine: digest of the binary of each ended trial of the variant; None: it did not compile.
        earlier: digests of all binaries of earlier variants.
    """
    return len(mine) >= REPEATED and all(digest is not None and digest in earlier for digest in mine)


def _best(times: Times) -> float | None:
    return min((time for time in times if time is not None), default=None)
