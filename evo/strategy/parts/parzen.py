"""Densities of good and bad configs on the grid of value indices.

This is the tree-structured Parzen estimator of Bergstra et al., *Algorithms for Hyper-Parameter Optimization* (NIPS
2011), in its multivariate form. A density is a sum of density kernels, one around each observation. A density kernel is
a product over the tunables, and is defined on the value indices. The score of a config x is
``log l(x) − log g(x)``, where l is the density of the best observations and g the density of the remaining
observations. Only valid configs are scored.
"""

import math

import numpy as np
import numpy.typing as npt

from evo.space import Indices, Space, Tunable
from evo.strategy.parts.observations import Observations, spread

Scores = npt.NDArray[np.float64]

UNIFORM_SHARE = 0.1
"""Fraction of a density kernel's weight that is spread evenly over all values of a tunable."""

BANDWIDTH = 0.02
"""Standard deviation of the density kernel of an ordinal tunable, as a fraction of the number of values."""

MIN_BANDWIDTH = 0.5
"""Minimum standard deviation, in value indices. At this minimum, an adjacent value gets about 11 % of the weight."""

GOOD_SHARE = 0.1
MAX_GOOD = 25
"""Observations that count as good: the best tenth, at most `MAX_GOOD` (Optuna's defaults)."""

MAX_BAD = 300
"""Maximum number of bad observations that are used. Observations that do not count as good are bad."""


class Parzen:
    """Draws configs near good configs, and scores configs by the densities of good and bad configs."""

    def __init__(self, space: Space) -> None:
        self._kernels = [ValueKernel(tunable) for tunable in space.tunables]
        self._log_uniform = -sum(math.log(kernel.size) for kernel in self._kernels)

    def draw(self, centres: Indices, count: int, rng: np.random.Generator) -> Indices:
        """Draw `count` rows from a mixture of density kernels around the rows `centres` and a uniform distribution.

        The drawn rows may be invalid.
        """
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
        """Return the score ``log l − log g`` of each row.

        Pending configs count as bad, so that workers try different regions.
        """
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
    """Return how many of the best observations count as good. Observations without a time are never good."""
    return min(math.ceil(GOOD_SHARE * len(seen.rows)), MAX_GOOD, seen.measured)


class ValueKernel:
    """Density kernel of one tunable: spreads the weight of an observation over the tunable's values.

    Attributes:
        size: number of values.
    """

    def __init__(self, tunable: Tunable) -> None:
        self.size = len(tunable.values)
        distances = np.arange(self.size)
        if tunable.ordinal and self.size > 2:
            self._falling = np.exp(-0.5 * (distances / max(MIN_BANDWIDTH, BANDWIDTH * self.size)) ** 2)
        else:
            self._falling = (distances == 0).astype(np.float64)
        falling = self._falling.cumsum()
        self._total = falling + falling[::-1] - self._falling[0]

    def weights(self, centres: Indices, values: Indices) -> Scores:
        """Return the weights of `values` in density kernels around `centres`. Both arrays are value indices.

        The two arrays are broadcast. The weights of all values for a centre sum to 1. They are computed in each call,
        because a table for all pairs of thousands of values would need too much memory.
        """
        near = self._falling[np.abs(centres - values)] / self._total[centres]
        return np.asarray((1 - UNIFORM_SHARE) * near + UNIFORM_SHARE / self.size)
