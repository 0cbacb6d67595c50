"""Represents a history as an Optuna study, for Optuna's own TPE sampler."""

from weakref import ref

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState, create_trial

from evo.space import Indices, Space, Tunable
from evo.trial import Trial
from evo.trial.history import History, informative

FAILED = 1.5
"""A failed trial is recorded with a time: this factor times the slowest earlier time. Without a time, Optuna's sampler
would ignore it.
"""


class OptunaStudy:
    """One history as an Optuna study. New trials are added to the study; a different history gets a new study."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._distributions = {tunable.name: _distribution(tunable) for tunable in space.tunables}
        self._source: ref[History] | None = None

    def ask(self, history: History, seed: int) -> Indices:
        """Return Optuna's suggestion as value indices. It may be invalid, or may have been proposed before."""
        study = self._updated(history)
        sampler = TPESampler(multivariate=True, constant_liar=True, n_startup_trials=0, seed=seed)
        study.ask()
        asking = study.get_trials(deepcopy=False)[-1]
        suggested = sampler.sample_relative(study, asking, self._distributions)
        study.tell(asking.number, state=TrialState.FAIL)  # `_updated` adds the proposal from the history
        return np.array([suggested[name] for name in self._space.names], dtype=np.int32)

    def _updated(self, history: History) -> Study:
        if self._source is None or self._source() is not history:
            optuna.logging.disable_default_handler()  # users should not see logs of these internal studies
            self._study, self._source = optuna.create_study(), ref(history)
            self._numbers: list[int] = []
            self._ended, self._worst = 0, 1.0
        for trial in history.asked[len(self._numbers) :]:
            self._study.add_trial(self._running(self._space.encode(trial.config)))
            self._numbers.append(self._study.get_trials(deepcopy=False)[-1].number)
        for trial in history.finished[self._ended :]:
            self._tell(trial)
        self._ended = len(history.finished)
        return self._study

    def _running(self, row: Indices) -> FrozenTrial:
        params = dict(zip(self._distributions, row.tolist(), strict=True))
        return create_trial(state=TrialState.RUNNING, params=params, distributions=self._distributions)

    def _tell(self, trial: Trial) -> None:
        number = self._numbers[trial.number]
        if not informative(trial):
            self._study.tell(number, state=TrialState.FAIL)
            return
        if trial.cost is not None:
            self._worst = max(self._worst, trial.cost)
        self._study.tell(number, FAILED * self._worst if trial.cost is None else trial.cost)


def _distribution(tunable: Tunable) -> BaseDistribution:
    """Return a distribution over the value indices, so that a grid of powers of two is evenly spaced."""
    if tunable.ordinal:
        return IntDistribution(0, len(tunable.values) - 1)
    return CategoricalDistribution(tuple(range(len(tunable.values))))
