"""Checks the calculated result of random search against the package `autotuning-methodology`."""

from collections.abc import Sequence
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np

from tests.bench.strategy.baseline import expected_us
from tests.bench.strategy.ground import Floats, Ground

EVALUATIONS = np.arange(1, 201)


def check_baseline(grounds: Sequence[Ground]) -> str:
    """Compare `expected_us` with the calculation of the package. Return a line for the report.

    Raises:
        AssertionError: the calculations disagree.
    """
    if not find_spec("autotuning_methodology"):
        return "The calculated random search was not compared: `autotuning-methodology` is not installed.\n"
    for ground in grounds:
        np.testing.assert_allclose(expected_us(ground.falling_us, EVALUATIONS.astype(float)), _theirs(ground))
    return "The calculated random search agrees with that of `autotuning-methodology` on every space.\n"


def _theirs(ground: Ground) -> Floats:
    from autotuning_methodology.baseline import RandomSearchCalculatedBaseline

    failed = np.full(len(ground.entries) - len(ground.falling_us), np.nan)
    rising = ground.falling_us[::-1]
    statistics = SimpleNamespace(
        objective_performances_total_sorted=rising,
        objective_performances_total_sorted_nan=np.concatenate([rising, failed]),
        minimization=True,
    )
    curve: Floats = RandomSearchCalculatedBaseline(statistics).get_curve_over_fevals(EVALUATIONS)
    return curve
