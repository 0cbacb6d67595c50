"""What the observations say about configs nobody tried: how much faster than the best each may be."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate, repeat, takewhile

import numpy as np

from evo.space import Indices, Space
from evo.strategy.parts.coordinates import Coordinates, Points
from evo.strategy.parts.gaussian_process import Floats, Kernel, Posterior, fit, log_improvement
from evo.strategy.parts.observations import HOPELESS, Observations, spread

TRAINED = 160
"""Observations a prediction rests on: its cost grows with their square …"""

FITTED = 80
"""… and that of a fit with the cube."""

BELIEVED = 240
"""Pending configs that are taken to come out as predicted, the latest ones."""

FIRST_FIT = 2
GROWTH = 1.2
"""The length scales are fitted when there are so many times, and again each time these have grown by a fifth."""

LEAD = 1.25
"""A time that is shorter than the next by a larger factor counts as shorter by this one: it may be an error, beside
which all others would look alike. A true one stays the best, and what is then found near it counts in full."""

LABEL_NOISE = 0.1
LEAST_SUCCESS = 0.02
"""How loosely the chance of success follows what worked and what failed, and the least that is ever given."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What to expect of some configs, in standardised slowness (less is better), shape (n,) each.

    Attributes:
        best: what is expected of the best observation, which may have been lucky.
        success: chance to have a time at all.
    """

    mean: Floats
    deviation: Floats
    best: float
    success: Floats

    @property
    def improvement(self) -> Floats:
        """Logarithm of the expected improvement."""
        return log_improvement(self.mean, self.deviation, self.best) + np.log(self.success)


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What the observations say about any config.

    Attributes:
        time: standardised slowness, which is speed, turned round.
        success: chance of a time, less the overall share of those that have one; None if all have.
        share: that share.
        best: what is expected of the best observation.
    """

    coordinates: Coordinates
    time: Posterior
    success: Posterior | None
    share: float
    best: float

    def forecast(self, rows: Indices) -> Forecast:
        """What to expect of each row of ranks."""
        points = self.coordinates.of(rows)
        mean, deviation = self.time.predict(points)
        return Forecast(mean=mean, deviation=deviation, best=self.best, success=self._chance(points))

    def _chance(self, points: Points) -> Floats:
        if self.success is None:
            return np.ones(len(points))
        return np.clip(self.share + self.success.mean(points), LEAST_SUCCESS, 1)


class Surrogate:
    """A Gaussian process on speed, and a local chance of success.

    Speed, the inverse of time, tells the fast configs apart and the slow ones hardly.

    Its length scales depend on a prefix of the log alone, so that a restarted search finds the same ones.

    Args:
        aligned: whether numbers are told apart by their alignment too.
        scale: from losses to what is predicted, standardised, less for the better.
    """

    def __init__(self, space: Space, *, aligned: bool = True, scale: Callable[[Floats], Floats] | None = None) -> None:
        self._scale = scale or slowness
        self._coordinates = Coordinates(space, aligned=aligned)
        self._kernel: tuple[tuple[object, int], Kernel] | None = None

    def learn(self, seen: Observations) -> Outlook:
        """What follows from the observations, of which at least two must have a time.

        Pending configs are taken to come out as predicted (the kriging believer), so that workers do not crowd.
        """
        kernel = self._fitted(seen)
        known = spread(seen.order[: seen.worked], TRAINED)
        points, values = self._coordinates.of(seen.rows[known]), self._scale(seen.losses[known])
        time = Posterior(kernel, points, values)
        if len(seen.pending):
            pending = self._coordinates.of(seen.pending[-BELIEVED:])
            believed = np.concatenate([values, time.mean(pending)])
            time = Posterior(kernel, np.concatenate([points, pending]), believed)
        return Outlook(
            coordinates=self._coordinates,
            time=time,
            success=self._success(kernel, seen),
            share=seen.worked / len(seen.rows),
            best=float(time.mean(points).min()),
        )

    def _success(self, kernel: Kernel, seen: Observations) -> Posterior | None:
        """Regression on which of the observations have a time, less the share of them; None if all have."""
        worked, failed = seen.order[: seen.worked], seen.order[seen.worked :]
        if not len(failed):
            return None
        known = np.concatenate([spread(each, TRAINED // 2) for each in (worked, failed)])
        labels = (seen.losses[known] <= HOPELESS) - len(worked) / len(seen.rows)
        return Posterior(replace(kernel, noise=LABEL_NOISE), self._coordinates.of(seen.rows[known]), labels)

    def _fitted(self, seen: Observations) -> Kernel:
        key = (seen.log, last_fit(seen.worked))
        if self._kernel is None or self._kernel[0] != key:
            prefix = np.sort(seen.order[: seen.worked])[: key[1]]
            chosen = spread(prefix[np.argsort(seen.losses[prefix], kind="stable")], FITTED)
            points, values = self._coordinates.of(seen.rows[chosen]), self._scale(seen.losses[chosen])
            self._kernel = key, fit(points, values, self._coordinates.names)
        return self._kernel[1]


def last_fit(worked: int) -> int:
    """Of how many observations the last fit knew."""
    lengths = accumulate(repeat(GROWTH), lambda length, growth: int(length * growth) + 1, initial=FIRST_FIT)
    return max(takewhile(lambda length: length <= worked, lengths))


def slowness(losses: Floats) -> Floats:
    """The negative of speed, with mean 0 and variance 1; what was pruned is as slow as the slowest.

    Figures that are no times, because some are not above 0, are used as they are.
    """
    figures = within_measured(losses)
    if figures.min() <= 0:
        return standardised(figures)
    if len(figures) > 1:
        figures = np.maximum(figures, np.partition(figures, 1)[1] / LEAD)
    return standardised(-figures.min() / figures)


def within_measured(losses: Floats) -> Floats:
    """Losses of which what was pruned is taken to be as slow as the slowest that has a time."""
    measured = losses[losses < HOPELESS]
    return np.minimum(losses, measured.max()) if len(measured) else np.ones_like(losses)


def standardised(figures: Floats) -> Floats:
    """With mean 0 and variance 1."""
    return np.asarray((figures - figures.mean()) / max(float(figures.std()), 1e-9))
