"""The neighbours of a config differ in one value, or in several values that a constraint ties together."""

import numpy as np

from evo.space import Constraint, Space, Tunable
from evo.space.expression import Expression
from evo.strategy.parts.neighbourhood import CENTRES, Neighbourhood
from evo.strategy.parts.observations import Observations
from evo.strategy.parts.relinking import POOL
from evo.trial import Config, Proposal, Value
from evo.trial.history import History
from tests.unit.landscapes import KINDS, measured, mixed, tell

RNG = np.random.default_rng(0)


def tied() -> Space:
    """Return a space in which `a` and `b` must be equal and `c` is free."""
    return Space(
        [Tunable(name="a", values=[1, 2, 3]), Tunable(name="b", values=[1, 2, 3]), Tunable(name="c", values=[0, 1])],
        [Constraint(expression=Expression.parse("a == b", "constraint"), because="they are a pair")],
    )


def test_relinking_also_changes_tunables_that_share_a_constraint_with_the_changed_one() -> None:
    space = tied()
    row = space.encode({"a": 1, "b": 1, "c": 0})
    near = Neighbourhood(space)
    valid = [space.decode(each) for each in near.around(row, RNG) if space.valid(each[None, :])[0]]
    assert valid == [{"a": 1, "b": 1, "c": 1}]
    relinked = [space.decode(each) for each in near.relinked(row)]
    assert relinked == [{"a": 2, "b": 2, "c": 0}, {"a": 3, "b": 3, "c": 0}]
    history = History()
    tell(history, history.ask(Proposal(config=space.decode(row), origin="default")), KINDS["measured"])
    seen = Observations(space)
    seen.refresh(history)
    new = Neighbourhood(space).of(seen.elites[:CENTRES], seen, RNG)
    fresh = {space.row_key(each) for each in new.rows[seen.fresh(new.rows)]}
    assert fresh == {space.key(each) for each in [*valid, *relinked]}


def engine() -> Space:
    """Return a space in which the TMA unit needs producer warps and stages, and stages limit the size of blocks."""
    values: dict[str, list[Value]] = {
        "COPY": ["async", "tma"],
        "PRODUCERS": [0, 1, 4],
        "TOGETHER": [0, 1],
        "STAGES": [1, 2, 3, 4],
        "BLOCK": [32, 64, 128, 256],
        "UNROLL": [1, 2, 4, 8],
    }
    texts = (
        "COPY == 'async' or (PRODUCERS > 0 and STAGES > 1)",
        "PRODUCERS == 0 or (COPY == 'tma' and not TOGETHER)",
        "STAGES * BLOCK <= 384",
    )
    return Space(
        [Tunable(name=name, values=each) for name, each in values.items()],
        [Constraint(expression=Expression.parse(text, "constraint")) for text in texts],
    )


def test_relinking_changes_only_the_tunables_that_constraints_require() -> None:
    space = engine()
    start: Config = {"COPY": "async", "PRODUCERS": 0, "TOGETHER": 1, "STAGES": 1, "BLOCK": 256, "UNROLL": 4}
    relinked = [space.decode(each) for each in Neighbourhood(space).relinked(space.encode(start))]
    assert all(config in space for config in relinked)
    by_copy_engine = [config for config in relinked if config["COPY"] == "tma"]
    assert by_copy_engine
    for config in by_copy_engine:  # the constraints require changes of five tunables, but not of UNROLL
        assert config["PRODUCERS"] in (1, 4)
        assert config["TOGETHER"] == 0
        assert config["STAGES"] in (2, 3, 4)
        assert config["UNROLL"] == 4


def test_relinked_neighbours_are_deterministic() -> None:
    space = engine()
    row = space.encode(space.default())
    assert np.array_equal(Neighbourhood(space).relinked(row), Neighbourhood(space).relinked(row))


def test_relinked_neighbours_of_a_large_space_are_few_and_valid() -> None:
    values = list(range(3000))
    space = Space(
        [Tunable(name="a", values=values), Tunable(name="b", values=values)],
        [Constraint(expression=Expression.parse("a == b", "constraint"), because="they are a pair")],
    )
    row = space.encode({"a": 0, "b": 0})
    relinked = Neighbourhood(space).relinked(row)
    assert 0 < len(relinked) <= POOL
    assert space.valid(relinked).all()


def test_space_without_constraints_has_no_relinked_neighbours() -> None:
    space = Space([Tunable(name="a", values=[1, 2]), Tunable(name="b", values=[1, 2])])
    assert Neighbourhood(space).relinked(space.encode({"a": 1, "b": 1})).shape == (0, 2)


def test_neighbours_of_several_elites_are_suggested() -> None:
    space, history = mixed(), History()
    for config in space.sample(np.random.default_rng(0), 12):
        trial = history.ask(Proposal(config=config, origin="random"))
        tell(history, trial, measured(space, trial))
    seen = Observations(space)
    seen.refresh(history)
    found = Neighbourhood(space).of(seen.elites[:CENTRES], seen, np.random.default_rng(0))
    assert sorted(set(found.parents.ravel().tolist())) == sorted(seen.elites[:CENTRES].tolist())
    assert CENTRES > 1
