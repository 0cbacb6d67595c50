"""A run of one contestant on one space with one seed, and its length."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from tests.bench.strategy.ground import Floats, Ground

Clock: TypeAlias = Literal["recorded", "steps"]


@dataclass(frozen=True, kw_only=True)
class Course:
    """Length and clock of a run.

    Attributes:
        workers: number of configs evaluated at once.
        clock: ``recorded``: an evaluation takes its recorded duration, and proposals take their own time;
            ``steps``: every evaluation takes one second and proposals none, so workers are synchronous.
        trials: least number of evaluations.
        until_s: least duration in seconds of the clock; a run ends once both are reached.
        goal: the run ends earlier when a config this close to the optimum (1.05: 5 % slower) has ended.
    """

    workers: int = 1
    clock: Clock = "recorded"
    trials: int = 200
    until_s: float = 0.0
    goal: float | None = None

    @property
    def key(self) -> str:
        """Return the name of a cached run: equal keys, equal courses."""
        goal = f"-to{self.goal:g}" if self.goal else ""
        return f"{self.workers}x{self.clock}-{self.trials}n-{self.until_s:.6g}s{goal}"


@dataclass(frozen=True, kw_only=True)
class Run:
    """Evaluations in the order they ended.

    Attributes:
        places: index of each config in the recording.
        ended_s: end of each evaluation in seconds of the clock.
        asking_s: processor time of each proposal.
        asks: number of proposals, repetitions and constraint violations included.
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
        """Return the best time after 1, 2, … evaluations; a shorter run repeats its last value."""
        best = np.minimum.accumulate(ground.times_us[self.places])[:evaluations]
        return np.concatenate([best, np.full(evaluations - len(best), best[-1] if len(best) else np.inf)])

    def best_us_at(self, ground: Ground, moments_s: Floats) -> Floats:
        """Return the best time at each of these moments; infinite before the first result."""
        best = np.concatenate([[np.inf], np.minimum.accumulate(ground.times_us[self.places])])
        result: Floats = best[np.searchsorted(self.ended_s, moments_s, side="right")]
        return result

    def seconds_to(self, ground: Ground, goal: float) -> float:
        """Return the time until a config is this close to the optimum; infinite if there is none."""
        evaluations = self.evaluations_to(ground, goal)
        return self.ended_s[int(evaluations) - 1] if np.isfinite(evaluations) else float("inf")

    def evaluations_to(self, ground: Ground, goal: float) -> float:
        """Return the number of evaluations until a config is this close to the optimum; infinite if there is none."""
        hits = np.flatnonzero(ground.times_us[self.places] <= goal * ground.optimum_us)
        return float(hits[0] + 1) if len(hits) else float("inf")
