"""Rounds of one process: they end once its figures are precise enough.

The verdict depends on differences between processes, so rounds beyond the precision of one process only add time.
Whether rounds end depends on how much the ratios vary, and not on their size. A first process ends earlier in two cases
in which its figures can promote nothing: a challenger that is certainly too slow, and one without an incumbent.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evo.promotion.policy import Policy
from evo.promotion.statistics import Samples, median_error, rounds_ratio

STEP = 10
"""Rounds between two checks: a batch of `median_error`, and an even number, so that orders stay balanced."""

_MEDIAN, _QUARTILES = math.sqrt(math.pi / 2), 1.349
"""For a normal distribution: error of the median relative to that of the mean, and quartile distance in deviations."""


def precise(pairs: Sequence[tuple[Samples, Samples]], policy: Policy) -> bool:
    """Return True if the median ratio of every pair has an error of at most `Policy.round_error`."""
    if policy.round_error is None or not pairs or not all(_due(own, policy) for own, _ in pairs):
        return False
    return all(_error(np.log(rounds_ratio(other, own))) <= policy.round_error for own, other in pairs)


def hopeless(own: Samples, incumbent: Samples, policy: Policy) -> bool:
    """Return True if further rounds of a first process would not lead to a promotion over the incumbent.

    Ending early in this case adds no false promotion, because the challenger is not promoted.
    """
    if policy.hopeless_errors is None or not _due(own, policy):
        return False
    logs = np.log(rounds_ratio(incumbent, own))
    return float(np.median(logs)) + policy.hopeless_errors * _error(logs) < -math.log1p(-policy.minimum_gain)


def clear(own: Samples, baselines: Sequence[Samples], policy: Policy) -> bool:
    """Return True if the speed-up over the fastest baseline is known well, relative to its size.

    It serves for a first process without an incumbent: its rounds decide no promotion, and the speed-up is stated with
    its interval.
    """
    if policy.first_round_error is None or not baselines or not _due(own, policy):
        return False
    logs = [np.log(rounds_ratio(each, own)) for each in baselines]
    fastest = min(logs, key=lambda each: float(np.median(each)))
    return _error(fastest) <= policy.first_round_error * abs(float(np.median(fastest)))


def _due(own: Samples, policy: Policy) -> bool:
    return len(own) >= policy.fewest_rounds and len(own) % STEP == 0


def _error(logs: NDArray[np.float64]) -> float:
    """Return the standard error of the median: the larger of two estimates.

    Batch means include drift, but with three batches may be small by chance. The other estimate assumes independent
    normal samples and takes their spread from the quartiles, which a few interrupted rounds do not affect.
    """
    low, high = np.percentile(logs, [25, 75])
    alone = _MEDIAN * float(high - low) / _QUARTILES / math.sqrt(len(logs))
    return max(median_error(logs), alone)
