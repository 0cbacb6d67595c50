"""Density of good and bad configs on the grid of value ranks.

The tree-structured Parzen estimator of Bergstra et al., *Algorithms for Hyper-Parameter Optimization* (NIPS 2011), in
its multivariate form: a kernel around each observation is a product over the tunables, and a candidate is worth
``log l(x) − log g(x)``, the density of the best share of the observations over that of the others. Here a kernel is a
table over the ranks of a tunable, so a density is a sum of look-ups; and only valid configs are ever scored.
"""

import math

import numpy as np
import numpy.typing as npt

from evo.space import Indices, Space, Tunable
from evo.strategy.observations import Observations, spread

Scores = npt.NDArray[np.float64]

ELSEWHERE = 0.1
"""Share of a kernel spread evenly over all values of a tunable."""

BANDWIDTH = 0.02
"""Standard deviation of an ordinal kernel as a share of the number of values …"""

MIN_BANDWIDTH = 0.5
"""… but at least this many ranks, which gives the adjacent value 12 % of the weight."""

GOOD_SHARE = 0.1
MAX_GOOD = 25
"""How many observations count as good: a tenth, never more than this (Optuna's defaults)."""

MAX_BAD = 300
"""Of the others so many are looked at."""


class Parzen:
    """The kernels of one space."""

    def __init__(self, space: Space) -> None:
        kernels = [_kernel(tunable) for tunable in space.tunables]
        self._cumulative = [np.cumsum(kernel, axis=1) for kernel in kernels]
        self._log = [np.log(kernel) for kernel in kernels]
        self._log_uniform = -sum(math.log(len(kernel)) for kernel in kernels)

    def draw(self, centres: Indices, count: int, rng: np.random.Generator) -> Indices:
        """Points of the plain product drawn from the mixture of kernels around the centres and a uniform one."""
        chosen = rng.integers(len(centres) + 1, size=count)
        rows = np.empty((count, centres.shape[1]), dtype=np.int32)
        around = centres[np.minimum(chosen, len(centres) - 1)]
        quantiles = rng.random(rows.shape)
        for column, cumulative in enumerate(self._cumulative):
            drawn = (quantiles[:, column, None] > cumulative[around[:, column]]).sum(axis=1)
            rows[:, column] = np.minimum(drawn, cumulative.shape[1] - 1)
        uniform = chosen == len(centres)
        sizes = [len(cumulative) for cumulative in self._cumulative]
        rows[uniform] = rng.integers(sizes, size=(int(uniform.sum()), len(sizes)))
        return rows

    def worth(self, rows: Indices, seen: Observations) -> Scores:
        """``log l − log g`` of each row; pending configs count as bad, so that workers do not crowd together."""
        good = good_count(seen)
        bad = spread(seen.order[good:], MAX_BAD)
        centres = np.concatenate([seen.rows[seen.order[:good]], seen.rows[bad], seen.pending])
        logs = np.zeros((len(rows), len(centres)))
        for column, table in enumerate(self._log):
            logs += table[centres[:, column]][:, rows[:, column]].T
        return self._density(logs[:, :good]) - self._density(logs[:, good:])

    def _density(self, logs: Scores) -> Scores:
        prior = np.full((len(logs), 1), self._log_uniform)
        density = np.logaddexp.reduce(np.concatenate([logs, prior], axis=1), axis=1)
        return np.asarray(density - math.log(logs.shape[1] + 1))


def good_count(seen: Observations) -> int:
    """How many of the best observations count as good; only measured ones can."""
    return min(math.ceil(GOOD_SHARE * len(seen.rows)), MAX_GOOD, seen.measured)


def _kernel(tunable: Tunable) -> Scores:
    """Row r: the weights of all values around rank r."""
    count = len(tunable.values)
    ranks = np.arange(count)
    if tunable.ordinal and count > 2:
        width = max(MIN_BANDWIDTH, BANDWIDTH * count)
        weights = np.exp(-0.5 * ((ranks[:, None] - ranks) / width) ** 2)
    else:
        weights = np.eye(count)
    weights /= weights.sum(axis=1, keepdims=True)
    return (1 - ELSEWHERE) * weights + ELSEWHERE / count
