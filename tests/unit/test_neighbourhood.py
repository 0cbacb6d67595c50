"""Around a config: single changes, and pairs of which one change alone would be invalid."""

import numpy as np

from evo.expression import Expression
from evo.history import History
from evo.space import Constraint, Space, Tunable
from evo.strategy import neighbourhood
from evo.strategy.neighbourhood import CENTRES, Neighbourhood
from evo.strategy.observations import Observations
from evo.trial import Proposal
from tests.unit.landscapes import KINDS, measured, mixed, tell

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
    history = History()
    tell(history, history.ask(Proposal(config=space.decode(row), origin="default")), KINDS["measured"])
    seen = Observations(space)
    seen.refresh(history)
    new = Neighbourhood(space).of_elites(seen, RNG)
    fresh = {space.row_key(each) for each in new.rows[seen.fresh(new.rows)]}
    assert fresh == {space.key(each) for each in [*valid, *pairs]}


def test_of_more_pairs_than_anybody_can_look_at_some_are_looked_at_always_the_same() -> None:
    values = list(range(1000))
    space = Space(
        [Tunable(name="a", values=values), Tunable(name="b", values=values)],
        [Constraint(expression=Expression.parse("(a + b) % 2 == 0", "constraint"), because="both or neither are even")],
    )
    row = space.encode({"a": 0, "b": 0})
    near, again = Neighbourhood(space), Neighbourhood(space)
    assert np.array_equal(near.coupled(row, np.random.default_rng(1)), again.coupled(row, np.random.default_rng(1)))
    (pairs,) = near._pairs.values()
    assert neighbourhood.COUPLED < len(pairs) < neighbourhood.PAIRS


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


def test_the_surroundings_of_several_elites_are_looked_at() -> None:
    space, history = mixed(), History()
    for config in space.sample(np.random.default_rng(0), 12):
        trial = history.ask(Proposal(config=config, origin="random"))
        tell(history, trial, measured(space, trial))
    seen = Observations(space)
    seen.refresh(history)
    found = Neighbourhood(space).of_elites(seen, np.random.default_rng(0))
    assert sorted(set(found.parents.ravel().tolist())) == sorted(seen.elites[:CENTRES].tolist())
    assert CENTRES > 1
