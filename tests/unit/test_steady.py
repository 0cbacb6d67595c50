"""Rule `steady`: a kernel that becomes slower after many calls is refused."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from evo.promotion import Rule, judge
from evo.promotion.policy import Policy
from evo.trial.results import ConfirmReport, Repeat
from evo.trial.timing import Timing

ROUNDS = 50


def series(rng: np.random.Generator, slower: Callable[[int], float] = lambda _: 1.0) -> Timing:
    noise = rng.lognormal(0.0, 0.02, ROUNDS)
    return Timing(samples_us=tuple(100.0 * slower(index) * noise[index] for index in range(ROUNDS)))


def steady(
    slower: Callable[[int], float], *, processes: int = 5, incumbent: bool = True, both: bool = False
) -> Sequence[Rule]:
    """Return the rule's results for a challenger whose time in each round is multiplied by `slower`."""
    rng = np.random.default_rng(0)

    def pair() -> tuple[Timing, Timing]:
        return series(rng, slower), series(rng, slower if both else lambda _: 1.0)

    (first, other), *further = (pair() for _ in range(processes))
    report = ConfirmReport(
        challenger=first,
        challenger_again=series(rng, slower),
        incumbent=other if incumbent else None,
        baselines={} if incumbent else {"library": other},
        repeats=tuple(Repeat(challenger=own, other=theirs) for own, theirs in further),
        repeated_against="incumbent" if incumbent else "library",
    )
    return [each for each in judge(report, Policy(), 1, rng).rules if each.name == "steady"]


@pytest.mark.parametrize("incumbent", [True, False])
def test_kernel_that_becomes_slower_after_half_of_its_calls_is_refused(incumbent: bool) -> None:
    (rule,) = steady(lambda index: 1.3 if index > ROUNDS // 2 else 1.0, incumbent=incumbent)
    assert not rule.passed
    assert rule.figure == pytest.approx(1.3, rel=0.02)
    assert rule.text.startswith("The challenger becomes slower after many calls.")


def test_kernel_with_constant_time_is_accepted() -> None:
    (rule,) = steady(lambda _: 1.0)
    assert rule.passed
    assert rule.threshold == pytest.approx(1 / 0.98)


def test_slowdown_of_the_whole_machine_is_not_attributed_to_the_kernel() -> None:
    (rule,) = steady(lambda index: 1.0 + index / ROUNDS, both=True)
    assert rule.passed


def test_slowdown_of_five_percent_is_refused_only_if_there_is_an_incumbent() -> None:
    late = lambda index: 1.05 if index > ROUNDS // 2 else 1.0  # noqa: E731 - both calls need the same function
    assert [each.passed for each in (*steady(late), *steady(late, incumbent=False))] == [False, True]


def test_slowdown_in_fewer_than_three_processes_is_not_refused() -> None:
    assert steady(lambda index: 2.0 if index > ROUNDS // 2 else 1.0, processes=1) == []
    (rule,) = steady(lambda index: 2.0 if index > ROUNDS // 2 else 1.0, processes=2)
    assert rule.passed
