"""Convert results of Optuna trials to the outcomes that our strategies read."""

import math
from dataclasses import dataclass

from optuna.trial import FrozenTrial, TrialState

from evo.trial.outcome import LaunchFailed, Measured, Outcome, Pruned
from evo.trial.timing import Timing

ENDED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
LARGEST = 1e150


@dataclass(frozen=True, kw_only=True)
class PositiveTimes:
    """Maps objective values to positive times in the same order.

    Attributes:
        maximise: the largest value becomes the shortest time.
        positive: all values are positive, and are used as times directly or, if maximised, as reciprocals; otherwise a
            smooth function maps them.
    """

    maximise: bool
    positive: bool = True

    def outcome(self, trial: FrozenTrial) -> Outcome:
        """Return the outcome of an ended trial."""
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
        """True if `trial` replaces `other` for the same config: a value wins over none, and the better of two grid
        points wins.
        """
        if trial.state != TrialState.COMPLETE or trial.value is None:
            return False
        if other.state != TrialState.COMPLETE or other.value is None:
            return True
        return trial.params != other.params and self.time(trial.value) < self.time(other.value)
