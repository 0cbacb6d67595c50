"""Gaussian process regression on a few hundred points, with a Matérn 5/2 kernel and one length scale per axis.

Sources: Rasmussen and Williams, *Gaussian Processes for Machine Learning* (2006), algorithm 2.1 and equation 5.9;
Jones, Schonlau and Welch, *Efficient Global Optimization of Expensive Black-Box Functions* (1998).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evo.strategy.parts.coordinates import Points

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

LOG_WEIGHT = 0.5
LOG_WEIGHT_SPREAD = 1.5
"""Mean and standard deviation of the normal prior of the logarithm of an axis's weight (the inverse square of its
length scale).
"""

NOISE = 1e-3
LOG_NOISE_SPREAD = 1.5
"""Centre and standard deviation of the normal prior of the logarithm of the noise, as a fraction of the process's
variance.
"""

STEPS = 12
"""Maximum number of optimiser iterations. The posterior hardly depends on the last digits of the length scales."""


@dataclass(frozen=True)
class Covariance:
    """Covariance function of the process, with the noise of observations.

    Attributes:
        weights: weight of each axis in the squared distance.
        noise: variance of the observation noise, as a fraction of the process's own variance.
        names: for each axis, True if its values have no order. Different values on such an axis have the distance 1.
    """

    weights: Floats
    noise: float
    names: Flags

    def between(self, a: Points, b: Points) -> Floats:
        """Return the correlation of each point of `a` with each point of `b`, shape (len(a), len(b))."""
        weights = np.where(self.names, 0, self.weights)
        x, y = a * np.sqrt(weights), b * np.sqrt(weights)
        squared = (x * x).sum(axis=1)[:, None] + (y * y).sum(axis=1) - 2 * x @ y.T
        for axis in np.flatnonzero(self.names):
            squared += self.weights[axis] * (a[:, axis, None] != b[:, axis])
        return matern(squared)


def matern(squared: Floats) -> Floats:
    """Return the Matérn 5/2 function of squared distances."""
    root = np.sqrt(np.maximum(5 * squared, 0))
    return np.asarray((1 + root + root * root / 3) * np.exp(-root))


class Posterior:
    """Posterior of the process, given observed values.

    Args:
        kernel: covariance function.
        points: observed points.
        values: standardised observed values, shape (n,).
    """

    def __init__(self, kernel: Covariance, points: Points, values: Floats) -> None:
        from scipy.linalg import cho_solve, cholesky  # importing SciPy takes half a second

        self._kernel, self._points = kernel, points
        covariance = kernel.between(points, points)
        covariance[np.diag_indices(len(points))] += kernel.noise
        self._lower = cholesky(covariance, lower=True, check_finite=False)
        self._weights = cho_solve((self._lower, True), values, check_finite=False)
        self._variance = max(float(values @ self._weights) / len(values), 1e-6)

    def mean(self, points: Points) -> Floats:
        """Return the posterior mean at each point."""
        return np.asarray(self._kernel.between(points, self._points) @ self._weights)

    def predict(self, points: Points) -> tuple[Floats, Floats]:
        """Return the mean and the standard deviation at each point."""
        from scipy.linalg import solve_triangular

        cross = self._kernel.between(points, self._points)
        explained = solve_triangular(self._lower, cross.T, lower=True, check_finite=False)
        left = np.maximum(1 - (explained * explained).sum(axis=0), 1e-12)
        return cross @ self._weights, np.sqrt(self._variance * left)


def fit(points: Points, values: Floats, names: Flags) -> Covariance:
    """Return the covariance function with the greatest posterior probability, given the observed values.

    The process's variance, which has an analytical solution, is not part of the optimisation.

    Args:
        points: observed points.
        values: standardised observed values, shape (n,).
        names: for each axis, True if its values have no order.
    """
    from scipy.optimize import minimize

    count = points.shape[1]
    mean = np.append(np.full(count, LOG_WEIGHT), np.log(NOISE))
    spread = np.append(np.full(count, LOG_WEIGHT_SPREAD), LOG_NOISE_SPREAD)
    distances = _squared_distances(points, names)

    def loss(logs: Floats) -> tuple[float, Floats]:
        value, slope = _misfit(np.exp(logs), distances, values)
        off = (logs - mean) / spread
        return value + 0.5 * float(off @ off), slope * np.exp(logs) + off / spread

    bounds = [*[(-6.0, 7.0)] * count, (np.log(1e-6), np.log(0.5))]
    found = minimize(loss, mean, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": STEPS})
    weights = np.exp(found.x)
    return Covariance(weights=weights[:-1], noise=float(weights[-1]), names=names)


def _squared_distances(points: Points, names: Flags) -> Floats:
    """Return the squared distances of all pairs of points along each axis, shape (axes, n²)."""
    squares = (points[:, None, :] - points) ** 2
    squares[:, :, names] = squares[:, :, names] > 0
    return np.stack([squares[:, :, axis].ravel() for axis in range(points.shape[1])])


def _misfit(weights: Floats, distances: Floats, values: Floats) -> tuple[float, Floats]:
    """Return the negative log marginal likelihood, and its gradient with respect to the axes' weights and the noise."""
    from scipy.linalg import cho_solve, cholesky

    n = len(values)
    root = np.sqrt(5 * (weights[:-1] @ distances))
    decay = np.exp(-root)
    covariance = ((1 + root + root * root / 3) * decay).reshape(n, n)
    covariance[np.diag_indices(n)] += weights[-1]
    lower = cholesky(covariance, lower=True, check_finite=False)
    inverse = cho_solve((lower, True), np.eye(n), check_finite=False)
    solved = inverse @ values
    variance = max(float(values @ solved) / n, 1e-10)
    slope = 0.5 * (inverse - np.outer(solved, solved) / variance)
    by_weight = distances @ (slope.ravel() * (-5 / 6) * (1 + root) * decay)
    misfit = 0.5 * n * np.log(variance) + np.log(np.diag(lower)).sum()
    return float(misfit), np.append(by_weight, np.trace(slope))


def log_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Return the logarithm of the expected improvement below `best`, accurate even close to zero.

    Args:
        mean, deviation: mean and standard deviation of each predicted value, shape (n,).

    Source: Ament et al., *Unexpected Improvements to Expected Improvement* (2023). Some case distinctions are omitted.
    """
    from scipy.special import ndtr

    below = (best - mean) / deviation
    near = np.maximum(below, -5.0)
    density = np.exp(-0.5 * near * near) / np.sqrt(2 * np.pi)
    exact = np.log(near * ndtr(near) + density)
    far = np.minimum(below, -5.0)
    tail = -0.5 * far * far - 0.5 * np.log(2 * np.pi) - 2 * np.log(-far)
    return np.asarray(np.where(below > -5, exact, tail) + np.log(deviation))
