"""Compares how close contestants come to the optimum within a given number of evaluations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tests.bench.strategy.baseline import horizon_s
from tests.bench.strategy.field import Effort, Field, gather
from tests.bench.strategy.ground import Floats, Ground
from tests.bench.strategy.player import Contestant
from tests.bench.strategy.run import Course, Run
from tests.bench.strategy.scores import Figure, by_evaluations, figure, mean_over_spaces

BUDGET = 200
HORIZONS = (100, BUDGET)
AT_BEST = 1.001
"""Maximum ratio of time to optimum at which a config counts as the best, because noise hides smaller differences."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Scores of one contestant.

    Attributes:
        p100, p200: mean scores over the spaces after 100 and 200 evaluations.
        p200_by_space: score after 200 evaluations for each space.
        trials_by_space: mean number of evaluations until the optimum is found, at most 200, for each space.
        ratios: median over all runs of the best time divided by the optimum, after 50, 100 and 200 evaluations.
        mean_ratio: mean over all runs of this ratio after 200 evaluations.
        harsh_ratio: mean over the spaces of the median of this ratio after 200 evaluations.
        least_distinct: smallest number of different valid configs in a run; at most 200.
        whole: True if each run has 200 evaluations or has evaluated the whole space.
        asks: number of proposals per evaluation.
        draws: bootstrap samples of p100 and p200, by name.
    """

    seeds: int
    p100: Figure
    p200: Figure
    p200_by_space: Sequence[float]
    trials_by_space: Sequence[float]
    ratios: Sequence[float]
    mean_ratio: float
    harsh_ratio: float
    least_distinct: int
    whole: bool
    asks: float
    draws: Mapping[str, Floats]


@dataclass(frozen=True, kw_only=True)
class CourseOf:
    """Returns the course (length and clock) of the runs on a space.

    A run has at least 200 evaluations, and lasts until random search has closed `share` of the gap to the optimum. The
    comparison by time uses the same runs.
    """

    share: float

    def __call__(self, ground: Ground) -> Course:
        return Course(workers=1, trials=BUDGET, until_s=horizon_s(ground, 1, self.share))


def compare(effort: Effort, contestants: Sequence[Contestant]) -> tuple[Field, dict[str, Standing]]:
    """Run and score the contestants. Return their runs and scores."""
    whole = gather(effort, [each for each in contestants if not each.brief], CourseOf(share=effort.share))
    brief = gather(effort, [each for each in contestants if each.brief], lambda _: Course(trials=BUDGET))
    field = replace(whole, runs={**whole.runs, **brief.runs})
    return field, {name: standing(field, name) for name in field.runs}


def standing(field: Field, name: str) -> Standing:
    curves = field.curves(name, lambda place, run: run.best_us(field.grounds[place], BUDGET))
    estimates, draws = mean_over_spaces(
        curves, lambda place, each: by_evaluations(field.grounds[place], each, HORIZONS), np.random.default_rng(0)
    )
    scores = [by_evaluations(ground, each, HORIZONS)[-1] for ground, each in zip(field.grounds, curves, strict=True)]
    ratios = [each / ground.optimum_us for each, ground in zip(curves, field.grounds, strict=True)]
    pooled = np.concatenate(ratios)
    pairs = list(zip(field.grounds, field.runs[name], strict=True))
    runs = [run for _, each in pairs for run in each]
    return Standing(
        seeds=len(curves[0]),
        p100=figure(float(estimates[0]), draws[:, 0]),
        p200=figure(float(estimates[1]), draws[:, 1]),
        p200_by_space=scores,
        trials_by_space=[_trials(ground, runs) for ground, runs in pairs],
        ratios=[float(np.median(pooled[:, count - 1])) for count in (50, 100, BUDGET)],
        mean_ratio=float(pooled[:, -1].mean()),
        harsh_ratio=float(np.mean([np.median(each[:, -1]) for each in ratios])),
        least_distinct=min(_distinct(run) for run in runs),
        whole=all(_distinct(run) >= min(BUDGET, len(ground.entries)) for ground, each in pairs for run in each),
        asks=float(np.mean([run.asks / max(1, len(run.places)) for run in runs])),
        draws={"p100": draws[:, 0], "p200": draws[:, 1]},
    )


def _distinct(run: Run) -> int:
    return min(BUDGET, len(set(run.places)))


def _trials(ground: Ground, runs: Sequence[Run]) -> float:
    return float(np.mean([min(run.evaluations_to(ground, AT_BEST), BUDGET) for run in runs]))


def lead(ours: Standing, theirs: Standing, score: str = "p200") -> Figure:
    """Return the difference of two contestants' scores, with its interval."""
    estimate = getattr(ours, score).estimate - getattr(theirs, score).estimate
    return figure(estimate, ours.draws[score] - theirs.draws[score])
