"""How the trials of a study ended, as our strategies understand it."""

import math
from dataclasses import dataclass

from optuna.trial import FrozenTrial, TrialState

from evo.trial.outcome import LaunchFailed, Measured, Outcome, Pruned
from evo.trial.timing import Timing

ENDED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
LARGEST = 1e150


@dataclass(frozen=True, kw_only=True)
class Ends:
    """Values as positive times in the same order.

    Attributes:
        maximise: the largest value is the shortest time.
        positive: all values are, and become times as they are or, maximised, as reciprocals; else by a smooth function.
    """

    maximise: bool
    positive: bool = True

    def outcome(self, trial: FrozenTrial) -> Outcome:
        """Of an ended trial."""
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
        """Whether it is the one to believe of two with one config: a value before none, of two points the better."""
        if trial.state != TrialState.COMPLETE or trial.value is None:
            return False
        if other.state != TrialState.COMPLETE or other.value is None:
            return True
        return trial.params != other.params and self.time(trial.value) < self.time(other.value)
