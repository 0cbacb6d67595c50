"""A run of a contestant on a space with a seed, and its course."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from tests.bench.strategy.ground import Floats, Ground

Clock: TypeAlias = Literal["recorded", "steps"]


@dataclass(frozen=True, kw_only=True)
class Course:
    """Length and clock of a run.

    Attributes:
        workers: number of configs that are evaluated at the same time.
        clock: ``recorded`` if evaluations take their recorded durations and proposals their processor time; ``steps``
            if each evaluation takes one second and proposals take no time, so that workers are synchronous.
        trials: minimum number of evaluations.
        until_s: minimum duration in seconds of the clock. A run ends when it has reached both minimums.
        goal: ratio of time to optimum at which a run ends early (1.05 means 5 % slower than the optimum).
    """

    workers: int = 1
    clock: Clock = "recorded"
    trials: int = 200
    until_s: float = 0.0
    goal: float | None = None

    @property
    def key(self) -> str:
        """Name of the course in file names of runs. Equal courses have equal names."""
        goal = f"-to{self.goal:g}" if self.goal else ""
        return f"{self.workers}x{self.clock}-{self.trials}n-{self.until_s:.6g}s{goal}"


@dataclass(frozen=True, kw_only=True)
class Run:
    """Evaluations of a run, in the order in which they ended.

    Attributes:
        places: index of each config in the recording.
        ended_s: end of each evaluation in seconds of the clock.
        asking_s: processor time of each proposal.
        asks: number of proposals, including repetitions and violations of constraints.
    """

    places: list[int]
    ended_s: list[float]
    asking_s: list[float]
    asks: int

    def document(self) -> dict[str, Any]:
        """Return a JSON document with times rounded to microseconds."""
        rounded = {name: [round(each, 6) for each in getattr(self, name)] for name in ("ended_s", "asking_s")}
        return asdict(self) | rounded

    def best_us(self, ground: Ground, evaluations: int) -> Floats:
        """Return the best time in µs after 1, 2, … evaluations. A shorter run repeats its last value."""
        best = np.minimum.accumulate(ground.times_us[self.places])[:evaluations]
        return np.concatenate([best, np.full(evaluations - len(best), best[-1] if len(best) else np.inf)])

    def best_us_at(self, ground: Ground, moments_s: Floats) -> Floats:
        """Return the best time in µs at each of the moments; infinite before the first result."""
        best = np.concatenate([[np.inf], np.minimum.accumulate(ground.times_us[self.places])])
        result: Floats = best[np.searchsorted(self.ended_s, moments_s, side="right")]
        return result

    def seconds_to(self, ground: Ground, goal: float) -> float:
        """Return the time when the first config within `goal` times the optimum ended; infinite if there is none."""
        evaluations = self.evaluations_to(ground, goal)
        return self.ended_s[int(evaluations) - 1] if np.isfinite(evaluations) else float("inf")

    def evaluations_to(self, ground: Ground, goal: float) -> float:
        """Return the number of evaluations until a config is within `goal` times the optimum; infinite if none is."""
        hits = np.flatnonzero(ground.times_us[self.places] <= goal * ground.optimum_us)
        return float(hits[0] + 1) if len(hits) else float("inf")
