"""Compares contestants only by their first 200 evaluations, which is fast enough for slow contestants."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tests.bench.strategy.evaluations import BUDGET
from tests.bench.strategy.field import Effort, gather
from tests.bench.strategy.player import Contestant
from tests.bench.strategy.run import Course
from tests.bench.strategy.scores import Figure, by_evaluations, figure, mean_over_spaces


@dataclass(frozen=True, kw_only=True)
class Distance:
    """Best time of a contestant divided by the optimum.

    Attributes:
        by_space: median over the runs of each space, after 200 evaluations.
        medians: median over all runs after 50, 100 and 200 evaluations.
        worst: largest ratio of all runs after 200 evaluations.
        p200: score after 200 evaluations, as in ``make bench-strategy``.
        asking_ms: median processor time of a proposal in ms.
    """

    seeds: int
    by_space: Sequence[float]
    medians: Sequence[float]
    worst: float
    p200: Figure
    asking_ms: float


def compare(effort: Effort, contestants: Sequence[Contestant]) -> Mapping[str, Distance]:
    """Return the results of all contestants by name. Runs that are missing from the archive are executed first."""
    field = gather(effort, contestants, lambda _: Course(clock="steps", trials=BUDGET))
    found = {}
    for name, runs in field.runs.items():
        curves = field.curves(name, lambda place, run: run.best_us(field.grounds[place], BUDGET))
        ratios = [each / ground.optimum_us for each, ground in zip(curves, field.grounds, strict=True)]
        scores, draws = mean_over_spaces(
            curves, lambda place, each: by_evaluations(field.grounds[place], each, (BUDGET,)), np.random.default_rng(0)
        )
        whole = np.concatenate(ratios)
        found[name] = Distance(
            seeds=len(curves[0]),
            by_space=[float(np.median(each[:, -1])) for each in ratios],
            medians=[float(np.median(whole[:, count - 1])) for count in (50, 100, BUDGET)],
            worst=float(whole[:, -1].max()),
            p200=figure(float(scores[0]), draws[:, 0]),
            asking_ms=1e3 * float(np.median([sum(run.asking_s) / len(run.places) for each in runs for run in each])),
        )
    return found
