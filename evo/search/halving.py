"""Successive halving: decides how many trials each variant of a search may have.

A new variant gets `FIRST` trials. When they have ended, the number is multiplied by `GROWTH` if the variant is among
the best third of the variants with at least as many trials. This is repeated until the variant fails the comparison.
Variants arrive at any time. A variant that reaches a rung (a number of trials) is therefore compared with the variants
that reached the rung before (asynchronous successive halving, Li et al., arXiv 1810.05934).

When no variant of the search has improved for `STAGNATION` trials, only two kinds of variants get more trials: the best
variant of each niche (similar variants, see `evo.search.niche`), and new variants in the better half of their niche. A
variant gets no more trials if it has at least `REPEATED` trials, and earlier variants already had all of its binaries.
All decisions depend only on the ended trials.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from evo.search.niche import Niche

FIRST = 8
"""Number of trials that a new variant may have before it is compared with others."""

GROWTH = 3
"""Factor between the numbers of trials of successive rungs. The best third (1 / `GROWTH`) of the variants continue."""

Costs: TypeAlias = Sequence[float | None]
"""Cost of each ended trial of a variant, in the order in which the trials ended: the time in µs, or the cost under the
search's metric. None if the trial was not measured.
"""


STAGNATION = 3 * FIRST
"""Number of ended trials without an improvement, over all variants, after which the search stagnates; see `stagnates`.
"""

LEAST_GAIN = 0.01
"""Minimum relative reduction of the lowest cost that counts as an improvement. Smaller reductions are measurement
noise.
"""

REPEATED = 3
"""Number of trials of a variant after which its binaries are compared with those of earlier variants."""


@dataclass(frozen=True, kw_only=True)
class VariantProgress:
    """Results of a variant's ended trials.

    Attributes:
        costs: cost of each ended trial, in the order in which the trials ended; None for a trial that was not measured.
        niche: niche of the variant's best trial (`evo.search.niche`); None while no trial was measured.
    """

    costs: Costs
    niche: Niche | None = None


def next_rung(trials: int, *, most: int | None) -> int:
    """Return the total number of trials of a variant that continues after `trials` trials.

    Args:
        most: upper limit of the result; None if there is none.
    """
    following = FIRST if trials < FIRST else GROWTH * trials
    return following if most is None else min(following, most)


def continues(mine: VariantProgress, others: Sequence[VariantProgress], *, stagnating: bool = False) -> bool:
    """Return True if a variant may have more trials. A variant without a measured trial gets no more.

    The variant's lowest cost is compared with the lowest cost that each other variant had after the same number of
    trials.

    Args:
        mine: results of the variant.
        others: results of the search's other variants, including the family's own implementation.
        stagnating: True if the search stagnates; see `stagnates`.
    """
    rung, best = len(mine.costs), _best(mine.costs)
    if best is None:
        return False
    rivals = [each for each in others if len(each.costs) >= rung]
    if stagnating:
        rivals = [each for each in rivals if each.niche == mine.niche]
    better = sum(cost is not None and cost < best for cost in (_best(each.costs[:rung]) for each in rivals))
    if stagnating:
        return better == 0 or (rung <= FIRST and better < math.ceil((len(rivals) + 1) / 2))
    return better < math.ceil((len(rivals) + 1) / GROWTH)


def stagnates(costs: Costs) -> bool:
    """Return True if none of the last `STAGNATION` trials lowered the lowest cost by more than `LEAST_GAIN`.

    The result is False if fewer than `STAGNATION` trials have ended.

    Args:
        costs: cost of every ended trial of all variants, in the order in which the trials ended; None for a trial
            without a time.
    """
    best, since = math.inf, 0
    for cost in costs:
        improved = cost is not None and cost < best * (1 - LEAST_GAIN)
        best, since = (best if cost is None else min(best, cost)), 0 if improved else since + 1
    return since >= STAGNATION


def repeats(mine: Sequence[str | None], earlier: Collection[str]) -> bool:
    """Return True if a variant has at least `REPEATED` trials, all with binaries that earlier variants already had.

    Args:
        mine: binary digest of each ended trial of the variant, None if the trial did not compile.
        earlier: digests of all binaries of earlier variants.
    """
    return len(mine) >= REPEATED and all(digest is not None and digest in earlier for digest in mine)


def _best(costs: Costs) -> float | None:
    return min((cost for cost in costs if cost is not None), default=None)
