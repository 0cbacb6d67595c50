"""The time axis: recorded compile and benchmark time of each config, and the contestant's own time to ask."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.bench.strategy.baseline import horizon_s
from tests.bench.strategy.field import Effort, Field, gather
from tests.bench.strategy.ground import Ground
from tests.bench.strategy.player import Contestant
from tests.bench.strategy.run import Course
from tests.bench.strategy.scores import Figure, by_time, figure, mean_over_spaces, moments_s

WORKERS = 8


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One contestant's score in time.

    Attributes:
        alone: with one worker.
        together: with eight; one that asks for a single config at a time uses one of them.
        asking_ms: the median processor time of one ask.
    """

    alone: Figure
    together: Figure
    asking_ms: float


def compare(effort: Effort, alone: Field, contestants: Sequence[Contestant]) -> dict[str, Timing]:
    """Score the runs with one worker, and play and score those with eight."""
    several = [each for each in contestants if each.parallel]

    def course(ground: Ground) -> Course:
        return Course(workers=WORKERS, trials=0, until_s=horizon_s(ground, WORKERS, effort.share))

    together = gather(effort, several, course)
    return {
        each.name: Timing(
            alone=_score(alone, each.name, 1, effort.share),
            together=_score(together if each in several else alone, each.name, WORKERS, effort.share),
            asking_ms=_asking_ms(alone, each.name),
        )
        for each in contestants
    }


def _score(field: Field, name: str, workers: int, share: float) -> Figure:
    grounds = field.grounds
    curves = field.curves(
        name, lambda place, run: run.best_us_at(grounds[place], moments_s(grounds[place], workers, share))
    )
    estimates, draws = mean_over_spaces(
        curves, lambda place, each: by_time(grounds[place], each, share), np.random.default_rng(0)
    )
    return figure(float(estimates[0]), draws[:, 0])


def _asking_ms(field: Field, name: str) -> float:
    spent_s = [np.sum(run.asking_s) / max(1, len(run.places)) for space in field.runs[name] for run in space]
    return 1e3 * float(np.median(spent_s))
