"""Successive halving decides which variants of a search get more trials."""

import pytest

from evo.search.halving import (
    FIRST,
    GROWTH,
    REPEATED,
    STAGNATION,
    VariantProgress,
    continues,
    next_rung,
    repeats,
    stagnates,
)
from evo.search.niche import Niche


def progress(*times: float | None, niche: str = "scalar") -> VariantProgress:
    return VariantProgress(costs=times, niche=Niche(mechanisms=(niche,)))


def test_trial_limits_of_halving_grow_up_to_the_maximum() -> None:
    rungs = [next_rung(0, most=100)]
    while rungs[-1] < 100:
        rungs.append(next_rung(rungs[-1], most=100))
    assert rungs == [FIRST, FIRST * GROWTH, FIRST * GROWTH**2, 100]


def test_first_trial_limit_of_halving_is_at_most_the_maximum() -> None:
    assert next_rung(0, most=3) == 3


def test_variant_without_competitors_gets_more_trials() -> None:
    assert continues(progress(9.0, None), [])


def test_variant_without_measured_trials_gets_no_more_trials() -> None:
    assert not continues(progress(*[None] * FIRST), [])


@pytest.mark.parametrize(("mine", "expected"), [(4.0, True), (6.0, False)])
def test_only_the_better_of_two_variants_gets_more_trials(mine: float, expected: bool) -> None:
    assert continues(progress(*[mine] * 8), [progress(*[5.0] * 8)]) is expected


def test_variants_are_compared_after_the_same_number_of_trials() -> None:
    late = [9.0] * 8 + [1.0] * 8
    assert continues(progress(*[5.0] * 8), [progress(*late)])


def test_variant_is_not_compared_with_variants_that_have_fewer_trials() -> None:
    assert continues(progress(*[5.0] * 8), [progress(*[1.0] * 7)])


def test_only_the_best_third_of_the_variants_gets_more_trials() -> None:
    field = [progress(*[float(time)] * 8) for time in range(1, 10)]
    survivors = [mine.costs[0] for mine in field if continues(mine, [each for each in field if each is not mine])]
    assert survivors == [1.0, 2.0, 3.0]


def test_search_stagnates_while_no_trial_improves_the_best_time() -> None:
    quiet: list[float | None] = [10.0, *[11.0, None] * (STAGNATION // 2)]
    assert stagnates(quiet)
    assert not stagnates(quiet[:-1])
    assert not stagnates([*quiet, 9.0])
    assert stagnates([*quiet, 9.95])  # an improvement below 1 % counts as noise
    assert not stagnates([])


def test_failed_trials_count_as_stagnation() -> None:
    assert stagnates([None] * STAGNATION)


def test_stagnating_search_gives_a_slow_variant_of_a_new_niche_more_trials() -> None:
    fast = [progress(*[1.0] * 8) for _ in range(5)]
    slow = progress(*[9.0] * 8, niche="mma")
    assert not continues(slow, fast)
    assert continues(slow, fast, stagnating=True)


def test_stagnating_search_gives_half_of_the_new_variants_of_a_niche_more_trials() -> None:
    field = [progress(*[float(time)] * FIRST) for time in range(1, 9)]
    others = [[each for each in field if each is not mine] for mine in field]
    survivors = [
        mine.costs[0] for mine, rest in zip(field, others, strict=True) if continues(mine, rest, stagnating=True)
    ]
    assert survivors == [1.0, 2.0, 3.0, 4.0]


def test_stagnating_search_gives_older_variants_more_trials_only_if_they_lead_their_niche() -> None:
    count = FIRST * GROWTH
    leader, second, third = (progress(*[time] * count) for time in (1.0, 2.0, 3.0))
    assert continues(leader, [second, third], stagnating=True)
    assert not continues(second, [leader, third], stagnating=True)
    best_of_six = [progress(*[5.0] * count) for _ in range(4)]
    assert continues(second, [leader, *best_of_six])


def test_copied_variant_is_detected_by_its_first_binaries() -> None:
    assert repeats(["a"] * REPEATED, {"a", "b"})
    assert not repeats(["a"] * (REPEATED - 1), {"a"})
    assert not repeats([*["a"] * (REPEATED - 1), "c"], {"a"})
    assert not repeats([*["a"] * (REPEATED - 1), None], {"a"})
