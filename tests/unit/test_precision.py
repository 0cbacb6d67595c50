"""Rounds of a process end once its figures are precise enough, whatever they say."""

from dataclasses import replace

import numpy as np
import pytest

from evo.promotion.policy import Policy
from evo.promotion.rules.precision import precise
from tests.bench.verdict.draws import rounds_taken

POLICY = Policy()


def series(noise: float, rounds: int = 100, time_us: float = 100.0, seed: int = 0) -> list[float]:
    drawn: list[float] = (time_us * np.exp(np.random.default_rng(seed).normal(0.0, noise, rounds))).tolist()
    return drawn


def test_rounds_of_a_quiet_machine_end_at_the_first_look() -> None:
    assert rounds_taken([(series(1e-4), series(1e-4, seed=1))], 100, POLICY) == POLICY.fewest_rounds


def test_rounds_of_a_noisy_machine_are_all_taken() -> None:
    assert rounds_taken([(series(0.05), series(0.05, seed=1))], 100, POLICY) == 100


@pytest.mark.parametrize("speedup", [0.5, 1.0, 1.03, 2.0])
def test_end_does_not_depend_on_the_speed_up(speedup: float) -> None:
    other = series(0.004, seed=3)
    expected = rounds_taken([(series(0.004, seed=2), other)], 100, POLICY)
    assert POLICY.fewest_rounds < expected < 100
    assert rounds_taken([(series(0.004, time_us=100.0 / speedup, seed=2), other)], 100, POLICY) == expected


def test_noisiest_pair_decides_the_number_of_rounds() -> None:
    quiet, noisy = (series(1e-4), series(1e-4, seed=1)), (series(1e-4), series(0.05, seed=1))
    assert rounds_taken([quiet, noisy], 100, POLICY) == 100


def test_rounds_end_only_at_looks_and_only_if_something_is_compared() -> None:
    own, other = series(1e-4), series(1e-4, seed=1)
    assert [count for count in range(20, 62) if precise([(own[:count], other[:count])], POLICY)] == [30, 40, 50, 60]
    assert not precise([], POLICY)


def test_policy_may_demand_all_rounds() -> None:
    always = replace(POLICY, round_error=None)
    assert rounds_taken([(series(1e-4), series(1e-4, seed=1))], 100, always) == 100
