"""Compares two trials whose samples were taken at different times."""

from dataclasses import dataclass

import numpy as np

from evo.promotion.policy import Policy
from evo.promotion.statistics import Interval, hedges_g, independent_ratio_interval, order_interval, rank_sum_p_value
from evo.trial.timing import Timing

FEWEST = 3
"""Minimum number of samples of each trial."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Comparison of two trials that were measured separately. Promotions compare interleaved samples instead.

    Attributes:
        left, right: median time of each trial in µs with its confidence interval.
        speedup: time of the right trial divided by time of the left trial; above 1, the left trial is faster.
        effect: Hedges' g, trimmed as in a confirmation; positive if the left trial is faster.
        p_value: two-sided p-value of a Mann-Whitney test. Drift between the two measurements can also make it small.
    """

    left: Interval
    right: Interval
    speedup: Interval
    effect: float
    p_value: float

    @property
    def summary(self) -> str:
        """The result of the comparison in one sentence."""
        if self.speedup.low <= 1.0 <= self.speedup.high:
            return "The samples do not distinguish the two trials."
        faster, ratio = (
            ("left", self.speedup.estimate) if self.speedup.low > 1 else ("right", 1 / self.speedup.estimate)
        )
        return f"The {faster} trial looks {ratio - 1:.1%} faster."


def compare(left: Timing, right: Timing, policy: Policy, rng: np.random.Generator) -> Comparison | None:
    """Compare two trials. Return None if a trial has too few samples, or if the timing protocols differ."""
    if left.protocol != right.protocol or min(len(left.samples_us), len(right.samples_us)) < FEWEST:
        return None
    return Comparison(
        left=order_interval(left.samples_us, policy.confidence),
        right=order_interval(right.samples_us, policy.confidence),
        speedup=independent_ratio_interval(right.samples_us, left.samples_us, policy.confidence, rng),
        effect=hedges_g(left.samples_us, right.samples_us, trim=policy.effect_trim),
        p_value=rank_sum_p_value(left.samples_us, right.samples_us),
    )
