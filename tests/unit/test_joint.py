"""A search for the Pareto front of two objectives proposes, restarts, stops and prunes as documented."""

import math
from dataclasses import replace

import numpy as np
import pytest

from evo.errors import InvalidInput
from evo.promotion.goal import Goal, needs_energy
from evo.promotion.policy import Policy
from evo.search.search import Budget, Logged, Search
from evo.space import Space
from evo.space.recording import Recording, config_key
from evo.strategy import STRATEGIES, Context, build
from evo.strategy.parts.joint import WEIGHTS, scalarised
from evo.trial import Proposal
from evo.trial.history import ELITES, History
from evo.trial.objective import Objective, front
from evo.trial.outcome import CompileFailed, Estimated
from evo.trial.timing import Bars

SECOND = "tile_m * tile_n * stages"
"""Represents the memory use of a kernel. In the recording, kernels with large tiles are fast."""


def second_goal(metric: str = SECOND) -> Goal:
    goal = Goal.second(Objective(second_metric=metric), {}, flops=None, moved=None)
    assert goal is not None
    return goal


def begun(space: Space, *, name: str = "portfolio", seed: int = 0, joint: bool = True, **budget: int) -> Search:
    return Search(
        space=space,
        strategy=build(name, Context(space=space)),
        budget=Budget(**budget),
        policy=Policy(),
        seed=seed,
        second=second_goal() if joint else None,
    )


def run_trials(search: Search, recording: Recording, count: int) -> list[Logged]:
    """Run `count` trials of a search on the recording, and return the logged trials."""
    log = []
    for _ in range(count):
        trial = search.ask()
        assert trial is not None
        log.append(search.tell(replace(trial, outcome=recording.outcome(config_key(trial.config)))))
    return log


def area(points: list[tuple[float, float]], corner: tuple[float, float]) -> float:
    """Return the area between the Pareto front of the points and a corner that is worse in both coordinates."""
    total, floor = 0.0, corner[1]
    for x, y in sorted(points[index] for index in front(points)):
        if x < corner[0] and y < floor:
            total, floor = total + (corner[0] - x) * (floor - y), y
    return total


def figures(log: list[Logged]) -> list[tuple[float, float]]:
    """Return the logarithms of both costs of each measured trial, even if the search has one objective."""
    goal = second_goal()
    ended = (goal.judged(each.trial) for each in log)
    return [(math.log(each.cost or 0), math.log(each.second_cost)) for each in ended if each.second_cost is not None]


@pytest.mark.slow
def test_two_objective_search_covers_more_of_the_pareto_front_than_a_search_by_time(
    recording: Recording, space: Space
) -> None:
    shares = {}
    for joint in (True, False):
        found = [figures(run_trials(begun(space, seed=seed, joint=joint), recording, 60)) for seed in range(4)]
        shares[joint] = sum(area(each, (8.0, 12.0)) for each in found)
    assert shares[True] > 1.02 * shares[False]


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_makes_the_same_proposals_after_a_restart(name: str, recording: Recording, space: Space) -> None:
    search = begun(space, name=name, seed=3)
    log = run_trials(search, recording, 24)
    for seen in (9, 17, 23):
        resumed = begun(space, name=name, seed=3)
        before = [replace(each, seen=each.seen) for each in log[:seen]]
        resumed.restore(before)
        trial = resumed.ask()
        assert trial is not None
        assert trial.proposal == log[seen].trial.proposal
    assert len({space.key(each.trial.config) for each in log}) == 24


def history_of(*costs: tuple[float, float] | None) -> History:
    history = History()
    for number, each in enumerate(costs):
        trial = history.ask(Proposal(config={"X": number}, origin="random"))
        outcome = CompileFailed(log="") if each is None else Estimated(time_us=each[0], second_cost=each[1])
        history.tell(replace(trial, outcome=outcome))
    return history


def test_scalarisation_weights_0_and_1_rank_by_one_objective() -> None:
    history = history_of((10.0, 800.0), (20.0, 300.0), None, (80.0, 100.0), (90.0, 900.0))
    ranked = {weight: [each.number for each in scalarised(history, weight).elites(9)] for weight in (0.0, 0.5, 1.0)}
    assert ranked[1.0][:2] == [0, 1]
    assert ranked[0.0][:2] == [3, 1]
    assert ranked[0.5][0] == 1
    assert all(each[-1] == 4 for each in ranked.values()), "a dominated trial ranks last"


def test_every_trial_on_a_concave_pareto_front_is_the_best_for_some_weight() -> None:
    points = [(1.0, 9.0), (4.0, 8.0), (6.5, 6.5), (8.0, 4.0), (9.0, 1.0)]
    history = history_of(*((math.exp(x), math.exp(y)) for x, y in points))
    best = {scalarised(history, step / (WEIGHTS - 1)).elites(1)[0].number for step in range(WEIGHTS)}
    assert best >= {0, 2, 4}
    sums = {
        min(range(5), key=lambda at: w * points[at][0] + (1 - w) * points[at][1]) for w in (0.1, 0.3, 0.5, 0.7, 0.9)
    }
    assert 2 not in sums, "no weighted sum is minimal in the middle of a concave front"


def test_scalarised_history_keeps_event_order_and_corrections() -> None:
    history = history_of((10.0, 5.0), (20.0, 4.0), (40.0, 3.0))
    pending = history.ask(Proposal(config={"X": 9}, origin="random"))
    history.correct(0, 100.0)
    one = scalarised(history, 1.0)
    assert (one.asked, one.seen, one.position) == (history.asked, history.seen, history.position)
    assert list(one.pending) == [pending.number]
    assert [each.number for each in one.elites(3)] == [1, 2, 0]
    assert [each.cost for each in history.elites(3)] == [20.0, 40.0, 10.0], "the original history is not changed"
    empty = history_of(None, None)
    assert scalarised(empty, 0.3) is empty


def test_scalarised_costs_of_extreme_values_are_finite() -> None:
    history = history_of((1e-3, 1e300), (1e12, 1e-300), (1e12, 1e300))
    assert all(math.isfinite(each.cost or math.inf) for each in scalarised(history, 0.5).elites(3))


def test_stagnation_is_counted_from_the_last_trial_on_the_pareto_front(recording: Recording, space: Space) -> None:
    search = begun(space, name="random", stagnation=8)
    while search.stop_reason(0.0) is None:
        log = run_trials(search, recording, 1)
        ended = [each for each in search.history.finished if each.cost is not None]
        costs = [(each.cost or 0.0, each.second_cost or 0.0) for each in ended]
        expected = [ended[index].number for index in front(costs)]
        assert sorted(each.number for each in search.front) == sorted(expected)
        last = max((search.history.position[number] + 1 for number in expected), default=0)
        assert search.stagnant == len(search.history.finished) - last
    assert search.stop_reason(0.0) == "stagnation"
    assert search.stagnant == 8
    best = search.history.elites(1)[0]
    assert search.history.position[best.number] < log[-1].trial.number - 8, "the front grew after the fastest trial"


def test_two_objective_search_never_stops_slow_trials_early(recording: Recording, space: Space) -> None:
    joint, single = begun(space), begun(space, joint=False)
    for search in (joint, single):
        run_trials(search, recording, 4 * ELITES)
    assert joint.bars() == Bars()
    assert single.bars() != Bars()


@pytest.mark.parametrize(
    ("objective", "field", "text"),
    [
        (Objective(second_direction="maximise"), "objective.second_direction", "requires a second metric"),
        (Objective(second_metric="time_us"), "objective.second_metric", "is the first objective, too"),
        (Objective(metric="a", second_metric="a"), "objective.second_metric", "is the first objective, too"),
        (Objective(second_metric="a +"), "objective.second_metric", "not an expression"),
    ],
)
def test_invalid_second_objective_is_refused(objective: Objective, field: str, text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Goal.second(objective, {}, flops=None, moved=None)
    assert refused.value.field == field
    assert text in refused.value.reason


def test_error_for_an_unknown_or_constant_second_metric_gives_the_reason() -> None:
    for metric, text in (("registers", "there is no `registers`"), ("N", "is the same for every config")):
        goal = Goal.second(Objective(second_metric=metric), {"N": 4}, flops=None, moved=None)
        assert goal is not None
        with pytest.raises(InvalidInput) as refused:
            goal.check(["TILE"], compiled=False)
        assert refused.value.field == "objective.second_metric"
        assert text in refused.value.reason


def test_two_objective_search_has_the_champion_key_of_its_first_objective() -> None:
    joint = Objective(metric="gb_s", direction="maximise", second_metric="registers")
    assert joint.key == joint.first.key == Objective(metric="gb_s", direction="maximise").key
    assert joint.goals == ("maximise: gb_s", "minimise: registers")
    assert joint.second is not None
    assert joint.second.goal == "minimise: registers"
    assert joint.second.second is None
    assert [axis.called for axis in joint.axes or ()] == ["gb_s", "registers"]
    assert [axis.called for axis in Objective(second_metric="registers").axes or ()] == ["time", "registers"]
    assert [axis.called for axis in Objective(metric="registers").axes or ()] == ["time", "registers"]
    assert Objective().axes is None


def test_energy_is_measured_if_one_of_the_objectives_needs_energy() -> None:
    assert needs_energy(Objective(second_metric="energy_uj"))
    assert needs_energy(Objective(metric="power_w", second_metric="registers"))
    assert not needs_energy(Objective(second_metric="registers"))


def test_seeded_generators_of_40_trials_give_many_different_weights(space: Space, recording: Recording) -> None:
    search = begun(space, seed=1)
    run_trials(search, recording, 40)
    drawn = {int(np.random.default_rng((1, number)).integers(WEIGHTS)) for number in range(40)}
    assert len(drawn) > WEIGHTS / 2
