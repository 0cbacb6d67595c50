"""What one contestant did on one space with one seed, and how long it was meant to go on."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from tests.bench.strategy.ground import Floats, Ground

Clock: TypeAlias = Literal["recorded", "steps"]


@dataclass(frozen=True, kw_only=True)
class Course:
    """How long a run lasts, and in which time.

    Attributes:
        workers: how many configs are evaluated at once.
        clock: ``recorded``: an evaluation lasts as long as when it was recorded, and asking takes its time too;
            ``steps``: every evaluation lasts one second and asking nothing, so workers ask in step.
        trials: evaluations the run lasts at least …
        until_s: … and seconds of the clock it lasts at least.
        goal: the run ends earlier when a config this close to the optimum (1.05: 5 % slower) has ended.
    """

    workers: int = 1
    clock: Clock = "recorded"
    trials: int = 200
    until_s: float = 0.0
    goal: float | None = None

    @property
    def key(self) -> str:
        """Names a cached run: equal keys, equal courses."""
        goal = f"-to{self.goal:g}" if self.goal else ""
        return f"{self.workers}x{self.clock}-{self.trials}n-{self.until_s:.6g}s{goal}"


@dataclass(frozen=True, kw_only=True)
class Run:
    """Evaluations in the order they ended.

    Attributes:
        places: which config, by its place in the recording.
        ended_s: on the clock of the course.
        asking_s: processor time of the contestant between two results, ask by ask.
        asks: how often it proposed something, repeats and constraint violations included.
    """

    places: list[int]
    ended_s: list[float]
    asking_s: list[float]
    asks: int

    def document(self) -> dict[str, Any]:
        """As JSON, times rounded to microseconds."""
        rounded = {name: [round(each, 6) for each in getattr(self, name)] for name in ("ended_s", "asking_s")}
        return asdict(self) | rounded

    def best_us(self, ground: Ground, evaluations: int) -> Floats:
        """The best time after 1, 2, … evaluations; the last one stays when the run was shorter."""
        best = np.minimum.accumulate(ground.times_us[self.places])[:evaluations]
        return np.concatenate([best, np.full(evaluations - len(best), best[-1] if len(best) else np.inf)])

    def best_us_at(self, ground: Ground, moments_s: Floats) -> Floats:
        """The best time at each of these moments; infinite before the first result."""
        best = np.concatenate([[np.inf], np.minimum.accumulate(ground.times_us[self.places])])
        result: Floats = best[np.searchsorted(self.ended_s, moments_s, side="right")]
        return result

    def seconds_to(self, ground: Ground, goal: float) -> float:
        """When on the clock of the course that one had ended; infinite if none ever was."""
        evaluations = self.evaluations_to(ground, goal)
        return self.ended_s[int(evaluations) - 1] if np.isfinite(evaluations) else float("inf")

    def evaluations_to(self, ground: Ground, goal: float) -> float:
        """How many evaluations had ended when one was this close to the optimum; infinite if none ever was."""
        hits = np.flatnonzero(ground.times_us[self.places] <= goal * ground.optimum_us)
        return float(hits[0] + 1) if len(hits) else float("inf")
