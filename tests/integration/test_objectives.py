"""Searches optimise a user's metric: they rank trials by it, promote champions, and survive restarts."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from api.web.pages.search.board import board_of
from db.engine.location import Location
from db.engine.session import Database
from db.queries.landscape import Landscape
from db.repositories.archive import Archive
from evo.errors import InvalidInput
from evo.messages.job import Confirm
from evo.trial.outcome import Measured
from tests.integration.stage import VALID, Stage, measured, toy_time_us
from tests.integration.test_db import migrate, played

BY_BLOCK = {"metric": "time_us * BLOCK"}
"""Objective whose minimum is at BLOCK=1, UNROLL=2. The shortest time of the toy family is at BLOCK=8, UNROLL=2."""


def test_champion_by_metric_does_not_replace_the_champion_by_time(stage: Stage) -> None:
    search = stage.submit(objective=BY_BLOCK)
    list(stage.play())
    stage.submit()
    list(stage.play())
    by_time, by_metric = stage.champions()
    assert by_metric.config == {"BLOCK": 1, "UNROLL": 2}
    assert by_time.config == {"BLOCK": 8, "UNROLL": 2}
    assert (by_time.current, by_metric.current) == (True, True)
    best = stage.view(search).best
    assert best is not None
    assert best.cost == pytest.approx(17.0)
    assert stage.view(search).objective.metric_text(best.cost) == "17"
    assert stage.view(search).gains == ()


def test_later_search_by_the_metric_challenges_the_champion(stage: Stage) -> None:
    stage.submit(objective=BY_BLOCK, budget={"trials": 1})
    list(stage.play())
    (first,) = stage.champions()
    search = stage.submit(objective=BY_BLOCK, seed=1)
    stage.restart()
    stage.register_worker()
    confirmed = [lease.job for lease in stage.play() if isinstance(lease.job, Confirm)]
    assert confirmed[-1].incumbent == first.config
    newest, _ = stage.champions()
    assert newest.config == {"BLOCK": 1, "UNROLL": 2}
    verdict = newest.evidence.verdict
    gain = toy_time_us(first.config) * int(first.config["BLOCK"]) / 17.0
    assert verdict.speedup is not None
    assert verdict.speedup.estimate == pytest.approx(gain)
    assert verdict.metric == pytest.approx(17.0)
    assert "less cost (minimise: time_us * BLOCK)" in stage.view(search).challenges[-1].verdict.summary


def test_search_that_maximises_a_rate_finds_the_fastest_config(stage: Stage) -> None:
    search = stage.submit(objective={"metric": "gb_s", "direction": "maximise"})
    list(stage.play())
    (champion,) = stage.champions()
    assert champion.config == {"BLOCK": 8, "UNROLL": 2}
    assert champion.evidence.verdict.metric == pytest.approx(8 * 64 / 10.0 / 1e3)
    assert all(trial.cost == pytest.approx(1e3 * (trial.time_us or 0) / 512) for trial in stage.trials(search))


def test_trial_without_a_metric_value_is_an_invalid_measurement(stage: Stage) -> None:
    search = stage.submit(objective={"metric": "BLOCK - 1"})
    list(stage.play())
    kinds = {(trial.config["BLOCK"], trial.outcome.kind) for trial in stage.trials(search) if trial.outcome}
    assert kinds == {(1, "invalid_measurement"), *((block, "measured") for block in (2, 4, 8, 16))}
    assert stage.champions()[0].config["BLOCK"] == 2


def test_trial_cost_is_computed_by_the_service_not_the_worker(stage: Stage) -> None:
    search = stage.submit(budget={"trials": 1})
    stage.hand_in(stage.one())  # the first job times the baselines
    lease = stage.one()
    outcome = measured({"BLOCK": 4, "UNROLL": 1})
    assert isinstance(outcome, Measured)
    stage.hand_in(lease, replace(outcome, cost=1e-9))
    (trial,) = stage.trials(search)
    assert trial.cost == trial.time_us


@pytest.mark.parametrize(
    ("objective", "text"),
    [
        ({"metric": "registers"}, "there is no `registers`. Usable names: BLOCK, N, UNROLL, bytes"),
        ({"metric": "N * 2"}, "is the same for every config"),
        ({"metric": "time_us +"}, "not an expression"),
        ({"direction": "maximise"}, "requires a metric"),
    ],
)
def test_invalid_or_constant_metrics_are_refused(stage: Stage, objective: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        stage.submit(objective=objective)
    assert refused.value.field.startswith("objective.")
    assert text in str(refused.value)


def test_migrated_trials_without_cost_are_ranked_by_their_time(tmp_path: Path) -> None:
    path = tmp_path / "evo.db"
    with played(path) as (search, _):
        pass
    migrate(path, "0022")
    with closing(sqlite3.connect(path)) as connection:
        assert "cost" not in {row[1] for row in connection.execute("PRAGMA table_info(trials)")}
    database = Database.open(path)
    with database.read() as session:
        timed = [row for row in Archive(session).trials(search) if row.time_us is not None]
        assert timed
        assert all(row.cost == row.time_us for row in timed)
        best = Archive(session).best(search)
        assert best is not None
    database.close()


def test_search_by_metric_never_stops_slow_trials_early(stage: Stage) -> None:
    search = stage.submit(objective=BY_BLOCK, policy={"prune_ratio": 1.01, "quick_samples": 5, "confirm_processes": 1})
    bars = [lease.job.bars for lease in stage.play() if lease.job.kind == "evaluate"]
    assert len(bars) == VALID
    assert all(each.prune_us is None and each.shorten_us is None for each in bars)
    assert stage.view(search).state == "finished"


def test_leaderboard_of_a_search_by_metric_shows_its_pareto_front(stage: Stage) -> None:
    search = stage.submit(objective={"metric": "BLOCK * UNROLL"})
    list(stage.play())
    timed = stage.submit()
    list(stage.play())
    with stage.database.read() as session:
        board = board_of(session, search, stage.now)
        assert board_of(session, timed, stage.now).trade_off is None
    assert board.trade_off is not None
    trials = [(trial.time_us or 0.0, trial.cost or 0.0, trial.number) for trial in stage.trials(search)]
    expected = [
        number
        for time_us, cost, number in sorted(trials)
        if not any(a <= time_us and b <= cost and (a, b) != (time_us, cost) for a, b, _ in trials)
    ]
    assert [each.number for each in board.trade_off.front.rows] == expected
    assert len(expected) > 3
    assert len(board.trade_off.drawings) == 2
    assert board.charts[0].summary.startswith("Best BLOCK * UNROLL by ended trials: ")
    assert not board.charts[0].levels, "baselines have no metric"


JOINT = {"metric": "gb_s", "direction": "maximise", "second_metric": "BLOCK * UNROLL"}


def test_two_objective_search_shows_a_front_and_promotes_by_its_first_objective(stage: Stage) -> None:
    search = stage.submit(objective=JOINT)
    list(stage.play())
    (champion,) = stage.champions()
    assert champion.config == {"BLOCK": 8, "UNROLL": 2}
    assert champion.objective.second_metric is None
    trials = [trial for trial in stage.trials(search) if trial.second_cost is not None]
    assert len(trials) == VALID
    for trial in trials:
        assert trial.second_cost == int(trial.config["BLOCK"]) * int(trial.config["UNROLL"])
        assert trial.cost == pytest.approx(1e3 * (trial.time_us or 0) / 512)
    with stage.database.read() as session:
        board = board_of(session, search, stage.now)
        numbers = Landscape(session, search).front(joint=True)
    costs = {each.number: (each.cost or 0.0, each.second_cost or 0.0) for each in trials}
    beaten = [
        number
        for number, (x, y) in costs.items()
        if any(a <= x and b <= y and (a, b) != (x, y) for a, b in costs.values())
    ]
    assert numbers == sorted(costs.keys() - set(beaten), key=lambda number: (costs[number][0], number))
    assert len(numbers) > 2
    assert board.trade_off is not None
    assert board.trade_off.front.names == ("gb_s", "BLOCK * UNROLL")
    assert [each.number for each in board.trade_off.front.rows] == numbers
    assert board.charts[0].summary.startswith("Best gb_s by ended trials: ")


def test_two_objective_search_challenges_the_champion_of_its_first_objective(stage: Stage) -> None:
    stage.submit(budget={"trials": 1})
    list(stage.play())
    (first,) = stage.champions()
    stage.submit(objective={"second_metric": "BLOCK"}, seed=1)
    confirmed = [lease.job for lease in stage.play() if isinstance(lease.job, Confirm)]
    assert confirmed[-1].incumbent == first.config
    newest, former = stage.champions()
    assert (newest.current, former.current) == (True, False)
    assert newest.config == {"BLOCK": 8, "UNROLL": 2}
    assert newest.objective == first.objective


@pytest.mark.slow
def test_two_objective_search_proposes_the_same_trials_after_restarts(locations: Callable[[], Location]) -> None:
    configs = []
    for restarts in ((), (3, 5, 9)):
        stage = Stage(locations())
        search = stage.submit(objective={"second_metric": "BLOCK * UNROLL"}, strategy="portfolio", seed=4)
        for turn, _ in enumerate(stage.play()):
            if turn in restarts:
                stage.restart()
                stage.register_worker()
        configs.append([trial.config for trial in stage.trials(search)])
        stage.database.close()
    assert configs[0] == configs[1]


@pytest.mark.parametrize(
    ("objective", "field", "text"),
    [
        ({"second_metric": "registers"}, "second_metric", "there is no `registers`. Usable names: BLOCK"),
        ({"second_metric": "N * 2"}, "second_metric", "is the same for every config"),
        ({"second_metric": "time_us"}, "second_metric", "is the first objective, too"),
        ({"second_metric": "energy_uj"}, "second_metric", "requires energy measurements, and"),
        ({"second_direction": "maximise"}, "second_direction", "requires a second metric"),
    ],
)
def test_invalid_or_constant_second_metrics_are_refused(
    stage: Stage, objective: dict[str, str], field: str, text: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        stage.submit(objective=objective)
    assert refused.value.field == f"objective.{field}"
    assert text in refused.value.reason


def test_trial_without_a_second_metric_value_is_an_invalid_measurement(stage: Stage) -> None:
    search = stage.submit(objective={"second_metric": "BLOCK - 1"})
    list(stage.play())
    kinds = {(trial.config["BLOCK"], trial.outcome.kind) for trial in stage.trials(search) if trial.outcome}
    assert kinds == {(1, "invalid_measurement"), *((block, "measured") for block in (2, 4, 8, 16))}


def test_confirmed_time_updates_the_cost_of_the_second_objective(stage: Stage) -> None:
    search = stage.submit(objective={"metric": "BLOCK", "second_metric": "time_us * 2"}, budget={"trials": 3})
    list(stage.play())
    confirmed = [trial for trial in stage.trials(search) if trial.confirmed is not None]
    assert confirmed
    for trial in stage.trials(search):
        assert trial.second_cost == pytest.approx(2 * (trial.time_us or 0))
