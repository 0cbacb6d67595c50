"""A process ends its rounds once the time ratio is precise, or once the first process decides the comparison."""

from dataclasses import replace

import numpy as np
import pytest

from evo.promotion.policy import Policy
from evo.promotion.rules.sequential import clear, hopeless, precise
from tests.bench.verdict.draws import rounds_taken
from tests.unit.policies import STATED

POLICY = STATED


def series(noise: float, rounds: int = 100, time_us: float = 100.0, seed: int = 0) -> list[float]:
    drawn: list[float] = (time_us * np.exp(np.random.default_rng(seed).normal(0.0, noise, rounds))).tolist()
    return drawn


def test_process_on_a_quiet_machine_runs_the_minimum_number_of_rounds() -> None:
    assert rounds_taken([(series(1e-4), series(1e-4, seed=1))], 100, POLICY) == POLICY.fewest_rounds


def test_process_on_a_noisy_machine_runs_all_rounds() -> None:
    assert rounds_taken([(series(0.05), series(0.05, seed=1))], 100, POLICY) == 100


@pytest.mark.parametrize("speedup", [0.95, 1.0, 1.03, 1.1])
def test_number_of_rounds_in_a_process_does_not_depend_on_a_small_speedup(speedup: float) -> None:
    other = series(0.004, seed=3)
    expected = rounds_taken([(series(0.004, seed=2), other)], 100, POLICY)
    assert POLICY.fewest_rounds < expected < 100
    assert rounds_taken([(series(0.004, time_us=100.0 / speedup, seed=2), other)], 100, POLICY) == expected


@pytest.mark.parametrize("speedup", [0.5, 2.0])
def test_process_ends_early_if_the_kernels_differ_clearly(speedup: float) -> None:
    pair = (series(0.006, time_us=100.0 / speedup, seed=2), series(0.006, seed=3))
    assert rounds_taken([pair], 100, POLICY) == POLICY.fewest_rounds
    assert rounds_taken([pair], 100, replace(POLICY, first_round_error=None)) == 100


def test_noisiest_pair_of_kernels_decides_the_number_of_rounds() -> None:
    quiet, noisy = (series(1e-4), series(1e-4, seed=1)), (series(1e-4), series(0.05, seed=1))
    assert rounds_taken([quiet, noisy], 100, POLICY) == 100


def test_rounds_of_a_process_end_only_at_a_multiple_of_ten_and_if_kernels_are_compared() -> None:
    own, other = series(1e-4), series(1e-4, seed=1)
    assert [count for count in range(20, 62) if precise([(own[:count], other[:count])], POLICY)] == [30, 40, 50, 60]
    assert not precise([], POLICY)


def test_policy_may_require_the_maximum_number_of_rounds() -> None:
    always = replace(POLICY, round_error=None)
    assert rounds_taken([(series(1e-4), series(1e-4, seed=1))], 100, always) == 100


def ended(speedup: float, noise: float, policy: Policy = POLICY) -> int:
    """Return the number of rounds that a first process takes to compare a challenger with an incumbent."""
    own, other = series(noise, seed=4), series(noise, time_us=100.0 * speedup, seed=5)
    return rounds_taken([(own, other)], 100, policy, first=True)


def test_challenger_that_is_certainly_too_slow_is_timed_in_the_fewest_rounds() -> None:
    assert ended(0.9, noise=0.02) == POLICY.fewest_rounds
    assert ended(0.9, noise=0.02, policy=replace(POLICY, hopeless_errors=None)) == 100


@pytest.mark.parametrize("speedup", [1.015, 1.03, 1.1, 1.5])
def test_challenger_that_may_be_promoted_is_timed_in_all_rounds(speedup: float) -> None:
    assert ended(speedup, noise=0.02) == 100


def test_far_slower_challenger_is_timed_in_the_fewest_rounds() -> None:
    own, other = series(0.01), series(0.01, time_us=10.0, seed=1)
    assert [count for count in range(20, 62) if hopeless(own[:count], other[:count], POLICY)] == [30, 40, 50, 60]


def test_first_confirmation_stops_when_the_speedup_over_baselines_is_precise() -> None:
    own, fast, slow = (
        series(0.01)[:30],
        series(0.01, time_us=300.0, seed=1)[:30],
        series(0.5, time_us=900.0, seed=2)[:30],
    )
    near = series(0.01, time_us=105.0, seed=3)[:30]
    assert clear(own, [fast, slow], POLICY)
    assert not clear(own, [fast, near], POLICY)
    assert not clear(own, [], POLICY)
    assert not clear(own[:25], [fast[:25]], POLICY)
    assert not clear(own, [fast], replace(POLICY, first_round_error=None))
