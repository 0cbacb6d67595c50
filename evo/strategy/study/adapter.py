"""Converts the trials of an Optuna study to a history that grows with the study."""

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from evo.space import Indices, Space
from evo.strategy.study.axis import Axis
from evo.trial import Config, Proposal, Trial
from evo.trial.history import History
from evo.trial.outcome import Abandoned, LaunchFailed, Measured, Outcome, Pruned
from evo.trial.timing import Timing

PROPOSED = "kernel_evo:given"
"""System attribute of a trial that contains the config proposed for the trial. The trial may use only some of the
config's parameters.
"""


class StudyReader:
    """Reads the trials of one Optuna study, and keeps the history of a search over one space.

    Objective values are converted to positive times (`PositiveTimes`). When the first non-positive value arrives, all
    values are converted again. A parameter that a trial does not use is assumed to have no effect, so the result counts
    for the proposed config. Trials outside the grid are ignored. Of several trials with the same config, only one
    counts: the first with a value. If their parameters differ, because a grid point represents several values, the
    trial with the best value counts.
    """

    def __init__(self, axes: Sequence[Axis], space: Space, direction: StudyDirection) -> None:
        self._axes = axes
        self._space = space
        self._grid = _digest(axes)
        self._times = PositiveTimes(maximise=direction == StudyDirection.MAXIMIZE)
        self._open: list[int] = []
        self._read = 0
        self._counting: dict[str, FrozenTrial] = {}
        self._outdone = False
        self._clear()

    def read(self, trials: Sequence[FrozenTrial]) -> History:
        """Read new trials, and return the history.

        Args:
            trials: all trials of the study, by number.
        """
        news = [*(trials[number] for number in self._open), *trials[self._read :]]
        if self._times.positive and any((each.value or 0) <= 0 for each in news if each.state == TrialState.COMPLETE):
            self._times = replace(self._times, positive=False)
            return self._read_again(trials)
        for trial in news:
            self._take(trial)
        if self._outdone:
            self._outdone = False
            return self._read_again(trials)
        self._open = [trial.number for trial in news if trial.state not in ENDED]
        self._read = len(trials)
        return self.history

    def _read_again(self, trials: Sequence[FrozenTrial]) -> History:
        """Return a new history of all trials. It is needed if an old result changes, which a history does not allow."""
        self._clear()
        return self.read(trials)

    def expect(self, number: int, config: Config) -> None:
        """Record that a config was proposed for a trial that has not ended."""
        self._ask(number, config)

    def note(self, config: Config) -> dict[str, Any]:
        """Return the data to store with the trial that gets `config`: its value indices, and the grid's digest."""
        return {"grid": self._grid, "ranks": self._space.encode(config).tolist()}

    def unmet(self, *, most: float = math.inf) -> Config | None:
        """Return a proposed config that no trial has used; None if there is none.

        Args:
            most: a config is skipped if more than this number of trials got it as a proposal and did not use it.
        """
        return next((config for key, config in self._unmet.items() if self._missed[key] <= most), None)

    def _clear(self) -> None:
        self.history = History()
        self._pending: dict[int, Trial] = {}
        self._keys: set[str] = set()
        self._unmet: dict[str, Config] = {}
        self._missed: Counter[str] = Counter()
        self._open, self._read = [], 0

    def _ask(self, number: int, config: Config) -> Trial:
        key = self._space.key(config)
        self._keys.add(key)
        self._unmet.pop(key, None)
        self._pending[number] = self.history.ask(Proposal(config=config, origin="asked"))
        return self._pending[number]

    def _take(self, trial: FrozenTrial) -> None:
        noted, ended = self._noted(trial), trial.state in ENDED
        asked = self._pending.get(trial.number)
        if asked is None and noted is not None:
            asked = self._ask(trial.number, noted)
        config = self._config(trial, noted) if ended or self._is_complete(trial) else None
        if asked is not None and ended and config != asked.config:
            self._miss(asked)
            asked = None
        if ended and config is not None and not self._counts(config, trial):
            if asked is not None:
                self._tell(asked, Abandoned(worker_losses=1))
            asked = config = None
        if asked is None and config is not None and self._is_new(config):
            asked = self._ask(trial.number, config)
        if asked is not None and ended:
            self._tell(asked, self._times.outcome(trial))
        if ended:
            self._pending.pop(trial.number, None)

    def _miss(self, asked: Trial) -> None:
        """Record that a trial did not use the config that was proposed for it."""
        key = self._space.key(asked.config)
        self._tell(asked, Abandoned(worker_losses=1))
        self._unmet[key] = asked.config
        self._missed[key] += 1

    def _counts(self, config: Config, trial: FrozenTrial) -> bool:
        """Return True if the result of this ended trial counts for the config, rather than that of an earlier trial."""
        key = self._space.key(config)
        so_far = self._counting.setdefault(key, trial)
        if so_far.number != trial.number and self._times.outdoes(trial, so_far):
            self._counting[key], self._outdone = trial, True
        return self._counting[key].number == trial.number

    def _noted(self, trial: FrozenTrial) -> Config | None:
        """Return the config that a sampler with the same grid stored with a trial; None if there is none."""
        noted = trial.system_attrs.get(PROPOSED)
        if noted is None or noted.get("grid") != self._grid:
            return None
        config = self._space.decode(noted["ranks"])
        return config if config in self._space else None

    def _is_new(self, config: Config) -> bool:
        key = self._space.key(config)
        return key not in self._keys or key in self._unmet

    def _tell(self, asked: Trial, outcome: Outcome) -> None:
        self.history.tell(Trial(number=asked.number, proposal=asked.proposal, outcome=outcome))

    def _is_complete(self, trial: FrozenTrial) -> bool:
        return all(each.name in trial.params for each in self._axes)

    def _config(self, trial: FrozenTrial, noted: Config | None) -> Config | None:
        """Return the config that the trial used; None if it is outside this space, or if no parameter was used.

        A parameter that the trial does not use gets the value of the proposed config `noted`, or the default if `noted`
        is None.
        """
        if not any(each.name in trial.params for each in self._axes):
            return None
        indices = [self._index(each, trial, noted) for each in self._axes]
        if any(index is None for index in indices):
            return None
        config = self._space.decode([index or 0 for index in indices])
        return config if config in self._space else None

    @staticmethod
    def _index(axis: Axis, trial: FrozenTrial, noted: Config | None) -> int | None:
        if axis.name in trial.params:
            return axis.index(trial.params[axis.name])
        return axis.tunable.default_index if noted is None else axis.tunable.index(noted[axis.tunable.name], axis.name)


def _digest(axes: Sequence[Axis]) -> str:
    """Return a digest of the axes' names and values. Equal digests mean equal grids."""
    return hashlib.sha256(repr([(each.name, each.values) for each in axes]).encode()).hexdigest()[:16]


def row_values(axes: Sequence[Axis], row: Indices) -> dict[str, object]:
    """Return the parameter values of a row of value indices, by name."""
    return {each.name: each.values[index] for each, index in zip(axes, row.tolist(), strict=True)}


ENDED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
LARGEST = 1e150


@dataclass(frozen=True, kw_only=True)
class PositiveTimes:
    """Maps objective values to positive times. A better value gets a shorter time.

    Attributes:
        maximise: True if the largest value becomes the shortest time.
        positive: True if all values are positive. Values, or their reciprocals if `maximise` is set, are then used as
            times. If False, a smooth function maps values to times.
    """

    maximise: bool
    positive: bool = True

    def outcome(self, trial: FrozenTrial) -> Outcome:
        """Convert an ended trial of the study to an outcome."""
        if trial.state == TrialState.COMPLETE and trial.value is not None:
            return Measured(timing=Timing(samples_us=(self.time(trial.value),)))
        if trial.state == TrialState.PRUNED:
            return Pruned(timing=Timing(samples_us=(LARGEST,)), threshold_us=LARGEST)
        return LaunchFailed(reason="the trial failed")

    def time(self, value: float) -> float:
        value = max(-LARGEST, min(LARGEST, value))
        if self.positive:
            return 1 / value if self.maximise else value
        signed = -value if self.maximise else value
        root = math.hypot(signed, 2)
        return (signed + root) / 2 if signed >= 0 else 2 / (root - signed)

    def outdoes(self, trial: FrozenTrial, other: FrozenTrial) -> bool:
        """Return True if `trial` counts for a config in place of the earlier trial `other`.

        `trial` must have a value. In addition, `other` must have no value, or must have a worse value and different
        parameters (a grid point may represent several values of a parameter).
        """
        if trial.state != TrialState.COMPLETE or trial.value is None:
            return False
        if other.state != TrialState.COMPLETE or other.value is None:
            return True
        return trial.params != other.params and self.time(trial.value) < self.time(other.value)
