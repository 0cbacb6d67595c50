"""Compares contestants by time: the recorded cost of each evaluation plus the contestant's time per proposal."""

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
    """Scores of one contestant by time.

    Attributes:
        alone: score with one worker.
        together: score with eight workers. A contestant that proposes one config at a time uses only one of them.
        seeds: numbers of seeds with one worker and with eight workers.
        asking_ms: median processor time of a proposal in ms.
    """

    alone: Figure
    together: Figure
    seeds: tuple[int, int]
    asking_ms: float


def compare(effort: Effort, alone: Field, contestants: Sequence[Contestant]) -> dict[str, Timing]:
    """Score the existing runs with one worker, and run and score the contestants with eight workers."""
    several = [each for each in contestants if each.parallel and each.name in alone.runs]

    def course(ground: Ground) -> Course:
        return Course(workers=WORKERS, trials=0, until_s=horizon_s(ground, WORKERS, effort.share))

    together = gather(effort, several, course)
    unknown = {each.name for each in several} - set(together.runs)
    return {
        name: Timing(
            alone=_score(alone, name, 1, effort.share),
            together=_score(together if name in together.runs else alone, name, WORKERS, effort.share),
            seeds=(len(alone.runs[name][0]), len((together if name in together.runs else alone).runs[name][0])),
            asking_ms=_asking_ms(alone, name),
        )
        for name in alone.runs
        if name not in unknown
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
