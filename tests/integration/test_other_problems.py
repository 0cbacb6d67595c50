"""A search for a new problem gets advice from the results of earlier searches."""

from pathlib import Path

import pytest

from evo.strategy.parts.transfer import LEAST
from tests.integration.stage import Stage

TRIALS = 12


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "stage.db")


def searched(stage: Stage, problem: dict[str, object], **terms: object) -> int:
    search_id = stage.submit(problem=problem, budget={"trials": TRIALS}, **terms)
    list(stage.play())
    return search_id


@pytest.mark.slow
def test_results_of_a_similar_problem_become_advice(stage: Stage) -> None:
    searched(stage, {"N": 1024})
    second = searched(stage, {"N": 2048}, strategy="portfolio")
    given = stage.view(second).warm_start
    assert given is not None
    assert given.predicted
    assert given.words == "5 configs predicted from 1 other problem"
    origins = [trial.origin for trial in stage.trials(second)]
    assert origins[:2] == ["advice", "advice"]


def test_search_gets_no_advice_from_its_own_problem_another_objective_or_with_from_default(stage: Stage) -> None:
    searched(stage, {"N": 1024})
    for problem, terms in (
        ({"N": 1024}, {}),
        ({"N": 2048}, {"objective": {"cache": "cold"}}),
        ({"N": 2048}, {"from_default": True}),
    ):
        assert stage.view(stage.submit(problem=problem, budget={"trials": 1}, **terms)).warm_start is None


def test_too_few_results_of_a_similar_problem_give_no_advice(stage: Stage) -> None:
    stage.submit(problem={"N": 1024}, budget={"trials": LEAST - 1})
    list(stage.play())
    assert stage.view(stage.submit(problem={"N": 2048}, budget={"trials": 1})).warm_start is None


def test_search_with_advice_repeats_no_config_after_a_restart(stage: Stage) -> None:
    searched(stage, {"N": 1024})
    second = stage.submit(problem={"N": 2048}, budget={"trials": TRIALS}, strategy="portfolio")
    list(stage.play(6))
    stage.restart()
    list(stage.play())
    third = [trial.config for trial in stage.trials(second)]
    assert len(third) == TRIALS
    assert len({str(config) for config in third}) == TRIALS
