"""A study's trials as a history, kept up to date as the study grows."""

import math
from collections.abc import Iterable, Sequence

from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from evo.history import History
from evo.outcome import Abandoned, LaunchFailed, Measured, Outcome, Pruned
from evo.space import Indices, Space
from evo.strategy.axis import Axis
from evo.timing import Timing
from evo.trial import Config, Proposal, Trial

ENDED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
LARGEST = 1e150


class Told:
    """The history of one study over one space.

    Values become positive times in the same order: as they are, as reciprocals for a maximised positive value, or, once
    a value is not positive, by a smooth function. Left out is a trial without all parameters, or beyond the grid, and
    one that repeats a config: its first result counts.
    """

    def __init__(self, axes: Sequence[Axis], space: Space, direction: StudyDirection) -> None:
        self._axes = axes
        self._space = space
        self._maximise = direction == StudyDirection.MAXIMIZE
        self._positive = True
        self._clear()

    def read(self, trials: Sequence[FrozenTrial]) -> History:
        """Take in what is new; `trials` are all trials of the study, by number."""
        if self._positive and any((trial.value or 0) <= 0 for trial in self._completed(trials)):
            self._positive = False
            self._clear()
        for trial in trials[self._settled :]:
            self._take(trial)
        while self._settled < len(trials) and trials[self._settled].number in self._done:
            self._settled += 1
        return self.history

    def expect(self, number: int, config: Config) -> None:
        """A trial was given this config and has not ended."""
        proposal = Proposal(config=config, origin="asked")
        self._pending[number] = self.history.ask(proposal)
        self._keys.add(self._space.key(config))

    def _clear(self) -> None:
        self.history = History()
        self._pending: dict[int, Trial] = {}
        self._done: set[int] = set()
        self._keys: set[str] = set()
        self._settled = 0

    def _completed(self, trials: Sequence[FrozenTrial]) -> Iterable[FrozenTrial]:
        return (trial for trial in trials[self._settled :] if trial.state == TrialState.COMPLETE)

    def _take(self, trial: FrozenTrial) -> None:
        if trial.number in self._done:
            return
        config = self._config(trial)
        key = None if config is None else self._space.key(config)
        asked = self._pending.get(trial.number)
        if asked is not None and trial.state in ENDED and key != self._space.key(asked.config):
            asked = None  # the objective chose otherwise; what was proposed stays pending and is not proposed again
        if asked is None and config is not None and key not in self._keys:
            self.expect(trial.number, config)
            asked = self._pending[trial.number]
        if trial.state in ENDED:
            self._done.add(trial.number)
            if asked is not None:
                outcome = Abandoned(worker_losses=1) if config is None else self._outcome(trial)
                self.history.tell(Trial(number=asked.number, proposal=asked.proposal, outcome=outcome))

    def _config(self, trial: FrozenTrial) -> Config | None:
        if not all(each.name in trial.params for each in self._axes):
            return None
        ranks = [each.rank(trial.params[each.name]) for each in self._axes]
        if any(rank is None for rank in ranks):
            return None
        config = self._space.decode([rank or 0 for rank in ranks])
        return config if config in self._space else None

    def _outcome(self, trial: FrozenTrial) -> Outcome:
        if trial.state == TrialState.COMPLETE and trial.value is not None:
            return Measured(timing=Timing(samples_us=(self._time(trial.value),)))
        if trial.state == TrialState.PRUNED:
            return Pruned(timing=Timing(samples_us=(LARGEST,)), threshold_us=LARGEST)
        return LaunchFailed(reason="the trial failed")

    def _time(self, value: float) -> float:
        value = max(-LARGEST, min(LARGEST, value))
        if self._positive:
            return 1 / value if self._maximise else value
        signed = -value if self._maximise else value
        root = math.hypot(signed, 2)
        return (signed + root) / 2 if signed >= 0 else 2 / (root - signed)


def row_values(axes: Sequence[Axis], row: Indices) -> dict[str, object]:
    """What the study calls the values of a row of ranks."""
    return {each.name: each.values[rank] for each, rank in zip(axes, row.tolist(), strict=True)}
