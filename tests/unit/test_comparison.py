"""Two separate measurements are compared, or the reason is given why they cannot be compared."""

from dataclasses import replace

import numpy as np
import pytest

from evo.promotion.policy import Policy
from evo.report.comparison import Comparison, compare
from evo.trial.timing import Timing


def series(median_us: float, count: int, seed: int) -> Timing:
    noise = np.random.default_rng(seed).normal(1.0, 0.01, count)
    return Timing(samples_us=tuple(median_us * noise))


def compared(left: Timing, right: Timing) -> Comparison:
    found = compare(left, right, Policy(), np.random.default_rng(1))
    assert found is not None
    return found


def test_comparison_of_different_kernels_names_the_faster_kernel() -> None:
    found = compared(series(100.0, 40, 1), series(110.0, 60, 2))
    assert found.speedup.low < 1.1 < found.speedup.high
    assert found.left.high < found.right.low
    assert found.effect > 5
    assert found.p_value < 1e-6
    assert found.summary.startswith("The left trial looks 1")
    turned = compared(series(110.0, 60, 2), series(100.0, 40, 1))
    assert turned.summary.startswith("The right trial looks 1")
    assert turned.effect == pytest.approx(-found.effect)


def test_comparison_does_not_distinguish_equal_kernels() -> None:
    found = compared(series(100.0, 40, 1), series(100.0, 40, 2))
    assert found.p_value > 0.05
    assert found.summary == "The samples do not distinguish the two trials."


def test_timings_with_few_samples_or_a_different_protocol_are_not_compared() -> None:
    rng, one = np.random.default_rng(1), series(100.0, 40, 1)
    assert compare(one, replace(one, samples_us=(100.0, 101.0)), Policy(), rng) is None
    assert compare(one, replace(one, protocol=one.protocol + 1), Policy(), rng) is None


def test_comparison_accepts_constant_samples() -> None:
    found = compared(Timing(samples_us=(10.0,) * 5), Timing(samples_us=(20.0,) * 5))
    assert found.speedup.estimate == 2.0
