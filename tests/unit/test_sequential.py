"""The sequential test over processes decides early, keeps its error probabilities, and corrects gains."""

import math
from dataclasses import replace

import numpy as np
import pytest

from evo.promotion.policy import Policy
from evo.promotion.rules.sequential import Decision, levels, looks, sequential_state, shrunk
from tests.unit.policies import STATED

POLICY = STATED


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (POLICY, (5, 8, 11, 15)),
        (replace(POLICY, confirm_processes=2, most_processes=4, process_looks=2), (2, 4)),
        (replace(POLICY, confirm_processes=5, most_processes=6), (5, 6)),
        (replace(POLICY, confirm_processes=20), (20,)),
        (replace(POLICY, process_looks=1), (15,)),
        (replace(POLICY, confirm_processes=1), (1,)),
    ],
    ids=["default", "two analyses", "few processes", "first beyond the maximum", "one analysis", "one process"],
)
def test_interim_analyses_are_evenly_spaced_between_first_and_last(policy: Policy, expected: tuple[int, ...]) -> None:
    assert looks(policy) == expected
    assert len(levels(policy)) == len(expected)
    assert sum(levels(policy)) == pytest.approx(policy.false_promotion)


def test_earlier_interim_analyses_have_smaller_error_probabilities() -> None:
    assert levels(POLICY) == pytest.approx([0.001 * k * k / 30 for k in (1, 2, 3, 4)])


@pytest.mark.parametrize(
    ("speedups", "decision"),
    [
        ([1.05], "open"),
        ([0.995], "open"),
        ([0.99], "too little"),
        ([1.05] * 5, "faster"),
        ([1.05] * 6, "open"),
        ([1.05, 1.051, 1.049, 1.05, 1.05], "faster"),
        ([1.05, 1.12, 0.99, 1.05, 1.05], "open"),
        ([1.05, 1.12, 0.99, 1.05, 1.05] * 3, "faster"),
        ([1.05, 1.2, 0.9, 1.05, 1.05] * 3, "cannot tell"),
        ([1.0, 1.001], "too little"),
        ([1.019] * 5, "too little"),
        ([1.01, 1.012, 1.011, 1.01, 1.011], "too little"),
        ([1.0, 1.002], "too little"),
        ([0.97, 1.0], "open"),
        ([0.5, 0.9, 0.6], "open"),
        ([0.9, 0.91, 0.92], "too little"),
    ],
)
def test_sequential_decision_follows_from_the_speedups(speedups: list[float], decision: Decision) -> None:
    assert sequential_state(speedups, POLICY).decision == decision


def test_sequential_bounds_equal_the_t_distribution_on_logarithms() -> None:
    from scipy.stats import ttest_1samp

    found = [1.04, 1.06, 1.05, 1.03, 1.07]
    at = sequential_state(found, POLICY)
    assert at.low is not None
    assert at.level is not None
    against = ttest_1samp(np.log(found), math.log(at.low), alternative="greater")
    assert against.pvalue == pytest.approx(at.level)


def test_upper_bound_of_a_single_process_uses_the_assumed_spread() -> None:
    from scipy.stats import t

    at = sequential_state([0.99], POLICY)
    assert at.high == pytest.approx(0.99 * math.exp(float(t.ppf(0.99, 3)) * 0.006))
    assert at.low is None


def test_upper_bound_uses_only_the_observed_spread_if_it_exceeds_the_assumed_spread() -> None:
    from scipy.stats import ttest_1samp

    found = [0.97, 1.0]
    at = sequential_state(found, POLICY)
    assert at.spread > POLICY.assumed_spread
    assert ttest_1samp(np.log(found), math.log(at.high), alternative="less").pvalue == pytest.approx(POLICY.futility)


@pytest.mark.parametrize("spread", [0.002, 0.005, 0.01])
def test_challenger_with_the_minimum_gain_is_rarely_refused(spread: float) -> None:
    rng = np.random.default_rng(3)
    gain = -math.log1p(-POLICY.minimum_gain)
    refused = [_ended(np.exp(rng.normal(gain, spread, 15)).tolist()) == "too little" for _ in range(500)]
    assert np.mean(refused) < 0.1


def test_randomly_slow_processes_rarely_cause_promotion_of_a_kernel_over_itself() -> None:
    """A rule that only compares the mean speed-up of five processes with the minimum gain would promote about 10 %."""
    rng = np.random.default_rng(0)
    promoted = 0
    for _ in range(1000):
        owed = np.where(rng.random((2, 15)) < 0.2, 1.06, 1.0) * np.exp(rng.normal(0, 0.003, (2, 15)))
        promoted += _confirmed((owed[1] / owed[0]).tolist())
    assert promoted <= 2


def test_five_percent_gain_is_promoted_if_times_differ_by_two_percent_between_processes() -> None:
    rng = np.random.default_rng(1)
    found = [_confirmed(np.exp(rng.normal(math.log(1 / 0.95), 0.02, 15)).tolist()) for _ in range(300)]
    assert sum(found) >= 285


def _confirmed(speedups: list[float]) -> bool:
    """Return True if processes with these speed-ups, in the given order, lead to a promotion."""
    return _ended(speedups) == "faster"


def _ended(speedups: list[float]) -> Decision:
    """Return the first decision that ends a confirmation with these speed-ups, in the given order."""
    decisions = (sequential_state(speedups[:count], POLICY).decision for count in range(1, len(speedups) + 1))
    return next(decision for decision in decisions if decision != "open")


def test_promoted_gains_are_corrected_for_selection() -> None:
    """On average, the corrected gain is closer to the true gain of 2 % than the measured gain."""
    rng = np.random.default_rng(2)
    truth = -math.log(0.98)
    errors: list[tuple[float, float]] = []
    while len(errors) < 100:
        speedups = np.exp(rng.normal(truth, 0.02, 15)).tolist()
        for count in (5, 8, 11, 15):
            at = sequential_state(speedups[:count], POLICY)
            if at.decision == "faster":
                assert 1.0 <= shrunk(at, POLICY) <= at.mean
                errors.append((math.log(at.mean) - truth, math.log(shrunk(at, POLICY)) - truth))
                break
    measured, corrected = np.mean(errors, axis=0)
    assert measured > 0.003
    assert abs(corrected) < 0.6 * measured


def test_selection_correction_is_zero_without_spread_and_small_for_clear_gains() -> None:
    assert shrunk(sequential_state([1.05] * 5, POLICY), POLICY) == pytest.approx(1.05)
    clear = sequential_state([1.5, 1.51, 1.49, 1.5, 1.5], POLICY)
    assert shrunk(clear, POLICY) == pytest.approx(clear.mean, rel=1e-3)
