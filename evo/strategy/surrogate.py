"""What the observations say about configs nobody tried: how much faster than the best each may be."""

from itertools import accumulate, repeat, takewhile

import numpy as np

from evo.space import Indices, Space
from evo.strategy.coordinates import Coordinates, Points
from evo.strategy.gaussian_process import Floats, Kernel, Posterior, fit, log_improvement
from evo.strategy.observations import HOPELESS, Observations, Places

TRAINED = 160
"""Observations a prediction rests on, and as many failures: the cost of a prediction grows with the square …"""

FITTED = 80
"""… and that of a fit with the cube."""

FIRST_FIT = 2
GROWTH = 1.2
"""The length scales are fitted when there are so many times, and again each time these have grown by a fifth."""

PRIOR_SUCCESS = 1.0
LEAST_SUCCESS = 0.02
"""How many trials the overall share of failures weighs against the failures nearby, and the least chance ever given."""


class Surrogate:
    """A Gaussian process on the logarithm of time, and a local share of failures.

    Its length scales depend on a prefix of the log alone, so that a restarted search finds the same ones.
    """

    def __init__(self, space: Space) -> None:
        self._coordinates = Coordinates(space)
        self._kernel: tuple[bytes, Kernel] | None = None

    def worth(self, rows: Indices, seen: Observations) -> Floats:
        """Logarithm of expected improvement times chance of success, of each row; there must be two times.

        Pending configs are taken to come out as predicted (the kriging believer), so that workers do not crowd.
        """
        kernel = self._fitted(seen)
        points = self._coordinates.of(rows)
        known = spread(seen.order[: seen.worked], TRAINED)
        train, values = self._coordinates.of(seen.rows[known]), standardised(seen.losses[known])
        posterior = Posterior(kernel, train, values)
        if len(seen.pending):
            pending = self._coordinates.of(seen.pending)
            believed, _ = posterior.predict(pending)
            posterior = Posterior(kernel, np.concatenate([train, pending]), np.concatenate([values, believed]))
        mean, deviation = posterior.predict(points)
        return log_improvement(mean, deviation, values.min()) + np.log(self._success(points, kernel, seen))

    def _success(self, points: Points, kernel: Kernel, seen: Observations) -> Floats | float:
        """Chance of each point to have a time, by the share that has one among those alike."""
        worked, failed = seen.order[: seen.worked], seen.order[seen.worked :]
        if not len(failed):
            return 1.0
        share = len(worked) / len(seen.rows)
        good, bad = (self._alike(points, kernel, seen.rows[spread(each, TRAINED)]) for each in (worked, failed))
        return np.maximum(LEAST_SUCCESS, (good + share * PRIOR_SUCCESS) / (good + bad + PRIOR_SUCCESS))

    def _alike(self, points: Points, kernel: Kernel, rows: Indices) -> Floats:
        return np.asarray(kernel.between(points, self._coordinates.of(rows)).sum(axis=1))

    def _fitted(self, seen: Observations) -> Kernel:
        worked = np.sort(seen.order[: seen.worked])
        prefix = worked[: last_fit(len(worked))]
        chosen = spread(prefix[np.argsort(seen.losses[prefix], kind="stable")], FITTED)
        rows, losses = seen.rows[chosen], seen.losses[chosen]
        key = rows.tobytes() + losses.tobytes()
        if self._kernel is None or self._kernel[0] != key:
            self._kernel = key, fit(self._coordinates.of(rows), standardised(losses), self._coordinates.axes)
        return self._kernel[1]


def last_fit(worked: int) -> int:
    """Of how many observations the last fit knew."""
    lengths = accumulate(repeat(GROWTH), lambda length, growth: int(length * growth) + 1, initial=FIRST_FIT)
    return max(takewhile(lambda length: length <= worked, lengths))


def spread(ranked: Places, count: int) -> Places:
    """At most `count` of these: half are the first, half evenly spread over the rest."""
    if len(ranked) <= count:
        return ranked
    first = count // 2
    return np.concatenate([ranked[:first], ranked[np.linspace(first, len(ranked) - 1, count - first).astype(np.intp)]])


def standardised(losses: Floats) -> Floats:
    """Logarithms with mean 0 and variance 1; what was pruned is as slow as the slowest.

    Figures that are no times, because some are not above 0, are used as they are.
    """
    measured = losses[losses < HOPELESS]
    figures = np.minimum(losses, measured.max()) if len(measured) else np.ones_like(losses)
    figures = np.log(figures) if figures.min() > 0 else figures
    return np.asarray((figures - figures.mean()) / max(float(figures.std()), 1e-9))
