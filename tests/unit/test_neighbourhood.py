"""Around a config: single changes, and pairs of which one change alone would be invalid."""

import numpy as np

from evo.expression import Expression
from evo.space import Constraint, Space, Tunable
from evo.strategy import neighbourhood
from evo.strategy.neighbourhood import Neighbourhood

RNG = np.random.default_rng(0)


def tied() -> Space:
    """`a` and `b` must be equal; `c` is free."""
    return Space(
        [Tunable(name="a", values=[1, 2, 3]), Tunable(name="b", values=[1, 2, 3]), Tunable(name="c", values=[0, 1])],
        [Constraint(expression=Expression.parse("a == b", "constraint"), because="they are a pair")],
    )


def test_no_single_change_leads_on_where_two_tunables_are_tied_and_the_pairs_do() -> None:
    space = tied()
    row = space.encode({"a": 1, "b": 1, "c": 0})
    near = Neighbourhood(space)
    valid = [space.decode(each) for each in near.around(row, RNG) if space.valid(each[None, :])[0]]
    assert valid == [{"a": 1, "b": 1, "c": 1}]
    pairs = [space.decode(each) for each in near.coupled(row, RNG)]
    assert pairs == [{"a": 2, "b": 2, "c": 0}, {"a": 3, "b": 3, "c": 0}]


def test_of_many_pairs_some_are_taken_and_they_differ_from_time_to_time() -> None:
    size = neighbourhood.COUPLED + 10
    values = list(range(size))
    space = Space(
        [Tunable(name="a", values=values), Tunable(name="b", values=values)],
        [Constraint(expression=Expression.parse("a == b", "constraint"), because="they are a pair")],
    )
    near, row = Neighbourhood(space), space.encode({"a": 0, "b": 0})
    first, second = near.coupled(row, RNG), near.coupled(row, RNG)
    assert first.shape == second.shape == (neighbourhood.COUPLED, 2)
    assert not np.array_equal(first, second)
    assert space.valid(first).all()


def test_a_space_without_ties_has_no_pairs() -> None:
    space = Space([Tunable(name="a", values=[1, 2]), Tunable(name="b", values=[1, 2])])
    assert Neighbourhood(space).coupled(space.encode({"a": 1, "b": 1}), RNG).shape == (0, 2)
