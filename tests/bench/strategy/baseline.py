"""Calculates the expected result of random search, and the end of the time axis.

With N times sorted slowest first, the expected rank of the best of M draws without repetition is M (N + 1) / (M + 1).

Source: Willemsen et al., *A methodology for comparing optimization algorithms for auto-tuning* (2024).
"""

import numpy as np
import numpy.typing as npt

from tests.bench.strategy.ground import Floats, Ground

SHARE = 0.9
"""Fraction of the gap between median time and optimum that random search has closed at the end of the time axis."""


def expected_us(falling_us: Floats, evaluations: Floats) -> Floats:
    """Return the expected best times in µs after the given numbers of evaluations, which may be fractional."""
    count = len(falling_us)
    below, above = np.floor(evaluations), np.ceil(evaluations)
    part = evaluations - below
    return (1 - part) * falling_us[_rank(below, count)] + part * falling_us[_rank(above, count)]


def evaluations_until(falling_us: Floats, share: float = SHARE) -> int:
    """Return the number of evaluations that random search needs to close `share` of the gap to the optimum.

    The gap is the difference between the median time of the space and the optimum.
    """
    goal = np.median(falling_us) + share * (falling_us[-1] - np.median(falling_us))
    curve = expected_us(falling_us, np.arange(1.0, len(falling_us) + 1))
    return int(np.argmax(curve <= goal)) + 1


def horizon_s(ground: Ground, workers: int, share: float = SHARE) -> float:
    """Return the seconds that `workers` workers need for `evaluations_until` evaluations of average cost."""
    return evaluations_until(ground.falling_us, share) * ground.mean_cost_s / workers


def _rank(evaluations: Floats, count: int) -> npt.NDArray[np.intp]:
    ranks: npt.NDArray[np.intp] = np.round(evaluations * (count + 1) / (evaluations + 1)).astype(np.intp)
    return np.minimum(ranks, count - 1)
