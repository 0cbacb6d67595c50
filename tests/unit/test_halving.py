"""Successive halving over the variants of a search."""

import pytest

from evo.search.halving import FIRST, GROWTH, goes_on, next_rung


def test_rungs_grow_up_to_the_limit() -> None:
    rungs = [next_rung(0, most=100)]
    while rungs[-1] < 100:
        rungs.append(next_rung(rungs[-1], most=100))
    assert rungs == [FIRST, FIRST * GROWTH, FIRST * GROWTH**2, 100]


def test_first_rung_is_no_larger_than_the_limit() -> None:
    assert next_rung(0, most=3) == 3


def test_only_variant_continues() -> None:
    assert goes_on([9.0, None], [])


def test_variant_without_measured_trials_ends() -> None:
    assert not goes_on([None] * FIRST, [])


@pytest.mark.parametrize(("mine", "expected"), [(4.0, True), (6.0, False)])
def test_better_of_two_variants_continues(mine: float, expected: bool) -> None:
    assert goes_on([mine] * 8, [[5.0] * 8]) is expected


def test_variants_are_compared_after_equally_many_trials() -> None:
    late = [9.0] * 8 + [1.0] * 8
    assert goes_on([5.0] * 8, [late])


def test_variants_below_the_rung_do_not_count() -> None:
    assert goes_on([5.0] * 8, [[1.0] * 7])


def test_best_third_of_variants_continues() -> None:
    field = [[float(time)] * 8 for time in range(1, 10)]
    survivors = [mine[0] for mine in field if goes_on(mine, [each for each in field if each is not mine])]
    assert survivors == [1.0, 2.0, 3.0]
