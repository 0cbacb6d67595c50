"""Density of good and bad configs on the grid of value ranks.

The tree-structured Parzen estimator of Bergstra et al., *Algorithms for Hyper-Parameter Optimization* (NIPS 2011), in
its multivariate form: a kernel around each observation is a product over the tunables, and a candidate is worth
``log l(x) − log g(x)``, the density of the best share of the observations over that of the others. Here a kernel goes
over the ranks of a tunable, so a density is a sum of look-ups; and only valid configs are ever scored.
"""

import math

import numpy as np
import numpy.typing as npt

from evo.space import Indices, Space, Tunable
from evo.strategy.parts.observations import Observations, spread

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
        self._kernels = [RankKernel(tunable) for tunable in space.tunables]
        self._log_uniform = -sum(math.log(kernel.size) for kernel in self._kernels)

    def draw(self, centres: Indices, count: int, rng: np.random.Generator) -> Indices:
        """Points of the plain product drawn from the mixture of kernels around the centres and a uniform one."""
        chosen = rng.integers(len(centres) + 1, size=count)
        rows = np.empty((count, centres.shape[1]), dtype=np.int32)
        quantiles = rng.random(rows.shape)
        around = np.minimum(chosen, len(centres) - 1)
        for column, kernel in enumerate(self._kernels):
            cumulative = kernel.weights(centres[:, column, None], np.arange(kernel.size, dtype=np.int32)).cumsum(axis=1)
            drawn = (quantiles[:, column, None] > cumulative[around]).sum(axis=1)
            rows[:, column] = np.minimum(drawn, kernel.size - 1)
        uniform = chosen == len(centres)
        sizes = [kernel.size for kernel in self._kernels]
        rows[uniform] = rng.integers(sizes, size=(int(uniform.sum()), len(sizes)))
        return rows

    def worth(self, rows: Indices, seen: Observations) -> Scores:
        """``log l − log g`` of each row; pending configs count as bad, so that workers do not crowd together."""
        good = good_count(seen)
        bad = spread(seen.order[good:], MAX_BAD)
        centres = np.concatenate([seen.rows[seen.order[:good]], seen.rows[bad], seen.pending])
        logs = np.zeros((len(rows), len(centres)))
        for column, kernel in enumerate(self._kernels):
            logs += np.log(kernel.weights(centres[:, column], rows[:, column, None]))
        return self._density(logs[:, :good]) - self._density(logs[:, good:])

    def _density(self, logs: Scores) -> Scores:
        prior = np.full((len(logs), 1), self._log_uniform)
        density = np.logaddexp.reduce(np.concatenate([logs, prior], axis=1), axis=1)
        return np.asarray(density - math.log(logs.shape[1] + 1))


def good_count(seen: Observations) -> int:
    """How many of the best observations count as good; only measured ones can."""
    return min(math.ceil(GOOD_SHARE * len(seen.rows)), MAX_GOOD, seen.measured)


class RankKernel:
    """How the weight of an observation is spread over the values of a tunable.

    Attributes:
        size: how many values there are.
    """

    def __init__(self, tunable: Tunable) -> None:
        self.size = len(tunable.values)
        apart = np.arange(self.size)
        if tunable.ordinal and self.size > 2:
            self._falling = np.exp(-0.5 * (apart / max(MIN_BANDWIDTH, BANDWIDTH * self.size)) ** 2)
        else:
            self._falling = (apart == 0).astype(np.float64)
        beside = self._falling.cumsum()
        self._total = beside + beside[::-1] - self._falling[0]

    def weights(self, centres: Indices, ranks: Indices) -> Scores:
        """Of the values at these ranks around those centres, one broadcast against the other; all of a centre's are 1.

        Never as a table of all values around all others, which thousands of values would fill memory with.
        """
        near = self._falling[np.abs(centres - ranks)] / self._total[centres]
        return np.asarray((1 - ELSEWHERE) * near + ELSEWHERE / self.size)
