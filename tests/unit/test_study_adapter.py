"""The study adapter converts Optuna's trials for the built-in strategies, and histories for Optuna's TPE."""

from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.study import StudyDirection
from optuna.trial import TrialState, create_trial

from evo.strategy.study.adapter import StudyReader
from evo.strategy.study.axis import axes_of, space_of
from evo.strategy.study.history import FAILED, OptunaStudy
from evo.trial import Proposal
from evo.trial.history import History
from tests.unit.landscapes import KINDS, measured, mixed, tell

X: dict[str, BaseDistribution] = {"X": IntDistribution(0, 9)}


def history_of(direction: StudyDirection, *trials: tuple[TrialState, float | None]) -> History:
    study: Any = optuna.create_study()
    for index, (state, value) in enumerate(trials):
        study.add_trial(create_trial(params={"X": index}, distributions=X, state=state, value=value))
    axes = axes_of(X)
    return StudyReader(axes, space_of(axes, ()), direction).read(study.get_trials(deepcopy=False))


def test_optuna_trial_states_map_to_outcomes() -> None:
    ends = [(TrialState.COMPLETE, 2.0), (TrialState.PRUNED, 3.0), (TrialState.FAIL, None)]
    outcomes = [trial.outcome for trial in history_of(StudyDirection.MINIMIZE, *ends).finished]
    assert [outcome.kind for outcome in outcomes if outcome is not None] == ["measured", "pruned", "launch_failed"]


@pytest.mark.parametrize("direction", [StudyDirection.MINIMIZE, StudyDirection.MAXIMIZE])
def test_positive_and_negative_optuna_values_become_ordered_times(direction: StudyDirection) -> None:
    values = np.array([-100.0, -10.0, -1.0, 0.0, 1.0, 10.0, 100.0])
    signed = values if direction == StudyDirection.MINIMIZE else -values
    history = history_of(direction, *((TrialState.COMPLETE, float(value)) for value in signed))
    times = np.array([trial.time_us for trial in history.finished])
    assert (times > 0).all() and (np.diff(times) > 0).all()
    assert times[1] / times[0] == pytest.approx(10, rel=0.05), "the ratios of the best values are kept"
    assert times[-1] - times[-2] == pytest.approx(90, rel=0.01), "the differences of the worst values are kept"


def test_failure_is_reported_to_optuna_as_slower_than_earlier_trials() -> None:
    space, history, study = mixed(), History(), OptunaStudy(mixed())
    slowest = 0.0
    for index, config in enumerate(space.sample(np.random.default_rng(0), 6)):
        trial = history.ask(Proposal(config=config, origin="random"))
        ended = tell(history, trial, KINDS["crashed"] if index == 5 else measured(space, trial))
        slowest = max(slowest, ended.time_us or 0.0)
    study.ask(history, 0)
    values = [trial.value for trial in study._study.trials if trial.state == TrialState.COMPLETE]
    assert values[5] == pytest.approx(FAILED * slowest)


def test_first_value_of_a_config_replaces_a_failure_and_is_kept() -> None:
    study: Any = optuna.create_study()
    reader = StudyReader(axes_of(X), space_of(axes_of(X), ()), StudyDirection.MINIMIZE)
    for state, value, known in (
        (TrialState.FAIL, None, [None]),
        (TrialState.COMPLETE, 2.0, [2.0]),
        (TrialState.COMPLETE, 1.0, [2.0]),
        (TrialState.FAIL, None, [2.0]),
    ):
        study.add_trial(create_trial(params={"X": 3}, distributions=X, state=state, value=value))
        assert [each.time_us for each in reader.read(study.get_trials(deepcopy=False)).finished] == known


def test_best_of_several_optuna_trials_on_one_grid_point_is_kept() -> None:
    wide: dict[str, BaseDistribution] = {"X": IntDistribution(0, 10**6)}
    study: Any = optuna.create_study()
    for value, place in ((3.0, 123_000), (1.0, 123_456), (2.0, 123_400)):
        study.add_trial(create_trial(params={"X": place}, distributions=wide, value=value))
    axes = axes_of(wide)
    history = StudyReader(axes, space_of(axes, ()), StudyDirection.MINIMIZE).read(study.get_trials(deepcopy=False))
    assert min(each.time_us for each in history.finished if each.time_us) == 1.0


def test_proposed_config_has_no_time_if_its_trial_used_another_config() -> None:
    study: Any = optuna.create_study()
    axes = axes_of(X)
    reader = StudyReader(axes, space_of(axes, ()), StudyDirection.MINIMIZE)
    reader.expect(0, {"X": 3})
    for place, value in ((5, 14.0), (3, 7.0)):
        study.add_trial(create_trial(params={"X": place}, distributions=X, value=value))
    assert [each.time_us for each in reader.read(study.get_trials(deepcopy=False)).finished] == [None, 14.0, 7.0]
