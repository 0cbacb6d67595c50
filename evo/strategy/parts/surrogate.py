"""Surrogate model: predicts how much faster an untried config may be than the best trial so far."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, repeat, takewhile
from threading import RLock
from typing import TYPE_CHECKING

import numpy as np

from evo.space import Indices, Space
from evo.strategy.parts.coordinates import Coordinates, Points
from evo.strategy.parts.gaussian_process import Covariance, Floats, Posterior, fit, log_improvement
from evo.strategy.parts.observations import HOPELESS, Observations, Places, spread

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

TRAINED = 160
"""Maximum number of ended trials in the model; predictions for pending configs are added (`BELIEVED`). The time of a
prediction grows with the square of the number of trials.
"""

FITTED = 80
"""Maximum number of observations from which the length scales are fitted. The time of a fit grows with the cube of this
number.
"""

BELIEVED = 240
"""Maximum number of pending configs whose predictions are used as results. If more are pending, the latest are used."""

FIRST_FIT = 2
GROWTH = 1.2
"""Length scales are fitted when `FIRST_FIT` trials have succeeded, and again whenever the number of successful trials
has grown by a fifth.
"""

LEAD = 1.25
"""Maximum ratio of the second best time to the best time. A larger ratio may be a measurement error, and would make all
remaining times look equal. The best time is therefore raised to the second best time divided by `LEAD`. A correct best
time is no longer limited once a neighbour has a similar time.
"""

LABEL_NOISE = 0.1
LEAST_SUCCESS = 0.02
"""Noise variance of the success labels, and the lowest predicted probability of success."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Prediction for several configs, in standardised slowness (lower is better).

    Attributes:
        mean, deviation: mean and standard deviation of the slowness, shape (n,).
        best: predicted slowness of the best observation. The measured slowness is not used, because a time may be short
            by chance.
        success: probability that the config does not fail, shape (n,).
    """

    mean: Floats
    deviation: Floats
    best: float
    success: Floats

    @property
    def improvement(self) -> Floats:
        """Logarithm of the expected improvement, including the probability of success; shape (n,)."""
        return log_improvement(self.mean, self.deviation, self.best) + np.log(self.success)


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """Models trained on the observations.

    Attributes:
        coordinates: maps configs to points.
        time: model of the standardised slowness (negative speed).
        success: model of the difference between a config's probability of success and `share`; None if no trial failed.
        share: fraction of the trials that were timed or pruned, i.e. did not fail.
        best: predicted slowness of the best observation.
    """

    coordinates: Coordinates
    time: Posterior
    success: Posterior | None
    share: float
    best: float

    def forecast(self, rows: Indices) -> Forecast:
        """Return the prediction for each row of value indices."""
        points = self.coordinates.of(rows)
        mean, deviation = self.time.predict(points)
        return Forecast(mean=mean, deviation=deviation, best=self.best, success=self._chance(points))

    def _chance(self, points: Points) -> Floats:
        if self.success is None:
            return np.ones(len(points))
        return np.clip(self.share + self.success.mean(points), LEAST_SUCCESS, 1)


class Surrogate:
    """Gaussian process for the speed, and a model of the probability of success.

    Speeds are modelled instead of times, because differences between fast configs are then larger than differences
    between slow configs. The length scales depend only on a prefix of the history, so a restarted search finds the same
    length scales.

    Args:
        aligned: True to add the alignment of numbers as a coordinate; see `Coordinates`.
        scale: function that converts losses to the standardised values that are predicted (lower is better); by
            default `slowness`.
    """

    def __init__(self, space: Space, *, aligned: bool = True, scale: Callable[[Floats], Floats] | None = None) -> None:
        self._scale = scale or slowness
        self._coordinates = Coordinates(space, aligned=aligned)
        self._kernel: tuple[tuple[object, int], Covariance] | None = None

    def learn(self, seen: Observations, *, rivals: Places | None = None) -> Outlook:
        """Return models trained on the observations, of which at least two must have a time.

        Predictions for pending configs are used like measured results (kriging believer), so that workers try different
        regions.

        Args:
            rivals: indices of timed observations, fastest first. Improvements are predicted relative to the best of
                these observations, and the model is preferably trained on them. By default, all observations that did
                not fail.
        """
        kernel = self._fitted(seen)
        known = spread(seen.order[: seen.worked], TRAINED)
        compared = len(known)
        if rivals is not None:
            preferred = spread(rivals, TRAINED // 2)
            known = np.concatenate([preferred, np.setdiff1d(known, rivals, assume_unique=True)])[:TRAINED]
            compared = len(preferred)
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
            best=float(time.mean(points[:compared]).min()),
        )

    def _success(self, kernel: Covariance, seen: Observations) -> Posterior | None:
        """Return a model of success (1, or 0 for failed trials) minus the success rate; None if no trial failed."""
        worked, failed = seen.order[: seen.worked], seen.order[seen.worked :]
        if not len(failed):
            return None
        known = np.concatenate([spread(each, TRAINED // 2) for each in (worked, failed)])
        labels = (seen.losses[known] <= HOPELESS) - len(worked) / len(seen.rows)
        return Posterior(replace(kernel, noise=LABEL_NOISE), self._coordinates.of(seen.rows[known]), labels)

    def _fitted(self, seen: Observations) -> Covariance:
        key = (seen.log, last_fit(seen.worked))
        if self._kernel is None or self._kernel[0] != key:
            prefix = np.sort(seen.order[: seen.worked])[: key[1]]
            chosen = spread(prefix[np.argsort(seen.losses[prefix], kind="stable")], FITTED)
            points, values = self._coordinates.of(seen.rows[chosen]), self._scale(seen.losses[chosen])
            self._kernel = key, fit(points, values, self._coordinates.names)
        return self._kernel[1]


def last_fit(worked: int) -> int:
    """Return the number of successful trials at the latest fit of the length scales; `worked` is the current number."""
    lengths = accumulate(repeat(GROWTH), lambda length, growth: int(length * growth) + 1, initial=FIRST_FIT)
    return max(takewhile(lambda length: length <= worked, lengths))


def slowness(losses: Floats) -> Floats:
    """Return negative speeds with mean 0 and variance 1. A pruned trial gets the slowest measured time.

    If a loss is not positive, the losses are not times, and are standardised without a conversion to speeds.
    """
    values = within_measured(losses)
    if values.min() <= 0:
        return standardised(values)
    if len(values) > 1:
        values = np.maximum(values, np.partition(values, 1)[1] / LEAD)
    return standardised(-values.min() / values)


def within_measured(losses: Floats) -> Floats:
    """Return the losses, with the slowest measured time in place of the losses of pruned trials."""
    measured = losses[losses < HOPELESS]
    return np.minimum(losses, measured.max()) if len(measured) else np.ones_like(losses)


def standardised(values: Floats) -> Floats:
    """Return the values shifted and scaled to mean 0 and variance 1."""
    return np.asarray((values - values.mean()) / max(float(values.std()), 1e-9))


_ONE_AT_A_TIME = RLock()
"""Lock for the number of BLAS threads, which is global to the process."""


@contextmanager
def single_thread() -> Iterator[None]:
    """Context manager that limits BLAS to one thread, so that proposals do not depend on the number of cores."""
    with _ONE_AT_A_TIME, _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> "ThreadpoolController":
    import scipy.linalg  # noqa: F401  # SciPy's BLAS is only found if it is loaded
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
