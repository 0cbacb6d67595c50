"""Computes scores of strategies: 0 is the expected result of random search, 1 is the optimum from the start.

The score after M evaluations is P(M) = (S(M) - F(M)) / (S(M) - optimum). S is the expected best time of random search,
F the median over the seeds of the best time found.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tests.bench.strategy.baseline import SHARE, evaluations_until, expected_us
from tests.bench.strategy.ground import Floats, Ground

FROM = 10
"""Number of the first evaluation that counts for a score."""

POINTS = 50
"""Number of equidistant times on the time axis."""

RESAMPLED = 300
LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class Figure:
    """An estimate, with its bootstrap interval over the seeds."""

    estimate: float
    low: float
    high: float


def improvement(random_us: Floats, found_us: Floats, optimum_us: float) -> Floats:
    """Return P at each point. Before its first result, a run counts as the slowest expected result of random search."""
    found = np.where(np.isfinite(found_us), found_us, random_us[0])
    room = random_us - optimum_us
    return np.where(room > 0, (random_us - found) / np.where(room > 0, room, 1.0), 1.0)


def by_evaluations(ground: Ground, curves_us: Floats, upto: Sequence[int]) -> Floats:
    """Return the mean of P(10) … P(n) for each n of `upto`. The curves have shape (seeds, at least the largest n)."""
    points = np.arange(FROM, max(upto) + 1)
    random_us = expected_us(ground.falling_us, points.astype(float))
    gained = improvement(random_us, _middle(curves_us[:, points - 1]), ground.optimum_us)
    return np.array([gained[: end + 1 - FROM].mean() for end in upto])


def by_time(ground: Ground, curves_us: Floats, share: float = SHARE) -> Floats:
    """Return the mean of P at the times of `moments_s`, shape (1,). The curves have shape (seeds, POINTS)."""
    random_us = expected_us(ground.falling_us, _evaluations(ground, share))
    score: Floats = improvement(random_us, _middle(curves_us), ground.optimum_us).mean(keepdims=True)
    return score


def moments_s(ground: Ground, workers: int, share: float = SHARE) -> Floats:
    """Return equidistant times in seconds, until random search has closed `share` of the gap to the optimum."""
    moments: Floats = _evaluations(ground, share) * ground.mean_cost_s / workers
    return moments


def mean_over_spaces(
    curves: Sequence[Floats], score: Callable[[int, Floats], Floats], rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return the mean scores over the spaces, and bootstrap samples of them.

    Args:
        curves: curves of each space, with seeds on the first axis.
        score: returns the scores of a space from its index and (resampled) curves.

    Returns:
        Arrays of shapes (scores,) and (RESAMPLED, scores).
    """
    estimates = np.mean([score(index, each) for index, each in enumerate(curves)], axis=0)
    draws = [
        np.mean([score(index, _resampled(each, rng)) for index, each in enumerate(curves)], axis=0)
        for _ in range(RESAMPLED)
    ]
    return estimates, np.array(draws)


def figure(estimate: float, draws: Floats) -> Figure:
    """Return an estimate with the percentile interval of its bootstrap samples."""
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Figure(estimate=estimate, low=float(low), high=float(high))


def _evaluations(ground: Ground, share: float) -> Floats:
    end = evaluations_until(ground.falling_us, share)
    return np.linspace(1.0, max(2.0, float(end)), POINTS)


def _resampled(curves: Floats, rng: np.random.Generator) -> Floats:
    drawn: Floats = curves[rng.integers(len(curves), size=len(curves))]
    return drawn


def _middle(curves_us: Floats) -> Floats:
    middle: Floats = np.median(curves_us, axis=0)
    return middle
