"""Measures how many trials one worker and 32 workers need until a config is within 5 % of the optimum's speed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tests.bench.strategy.field import Effort, Field, gather
from tests.bench.strategy.ground import Ground
from tests.bench.strategy.player import Contestant
from tests.bench.strategy.run import Clock, Course

WORKERS = 32
GOAL = 1 / 0.95
MOST = 1_000
"""Number of trials after which a run ends without reaching the goal."""

SHARE = 0.5
"""Fraction of the seeds that are run. Runs are long, and the median over fifty seeds is stable enough."""


COURSES: Sequence[tuple[int, Clock]] = ((1, "steps"), (WORKERS, "steps"), (WORKERS, "recorded"))


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """Results for one number of workers: medians over the seeds for each space.

    A median is infinite if at least half of the runs did not reach the goal.

    Attributes:
        trials: numbers of ended trials until a config reached the goal.
        clock: durations until a config reached the goal, in steps or recorded seconds.
    """

    trials: Sequence[float]
    clock: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Crowding:
    """Results of a contestant with one worker, 32 synchronous workers, and 32 workers on recorded durations."""

    alone: Crowd
    in_step: Crowd
    recorded: Crowd

    @property
    def growth(self) -> float:
        """Number of trials with 32 synchronous workers, divided by the number with one worker."""
        return growth(self.alone, self.in_step)


def growth(alone: Crowd, together: Crowd) -> float:
    """Return the number of trials of `together` divided by the number of `alone`.

    The result is the geometric mean over the spaces in which one worker reaches the goal.
    """
    pairs = np.array([alone.trials, together.trials])
    one, many = pairs[:, np.isfinite(alone.trials)]
    return float(np.exp(np.mean(np.log(many / one)))) if len(one) else float("nan")


def total_growth(alone: Crowd, together: Crowd) -> float:
    """Return the ratio of the sums of trials over all spaces; NaN if the goal was not reached in a space."""
    many, one = sum(together.trials), sum(alone.trials)
    return many / one if np.isfinite(many + one) else float("nan")


def compare(effort: Effort, contestants: Sequence[Contestant]) -> dict[str, Crowding]:
    fewer = replace(effort, seeds=max(2, round(SHARE * effort.seeds)))
    fields = [gather(fewer, contestants, partial(_course, workers, clock)) for workers, clock in COURSES]
    return {
        each.name: Crowding(alone=alone, in_step=in_step, recorded=recorded)
        for each in contestants
        if all(each.name in field.runs for field in fields)
        for alone, in_step, recorded in [[_crowd(field, each.name) for field in fields]]
    }


def _course(workers: int, clock: Clock, ground: Ground) -> Course:
    return Course(workers=workers, clock=clock, trials=min(MOST, len(ground.entries)), goal=GOAL)


def _crowd(field: Field, name: str) -> Crowd:
    pairs = list(zip(field.grounds, field.runs[name], strict=True))
    return Crowd(
        trials=[float(np.median([run.evaluations_to(ground, GOAL) for run in runs])) for ground, runs in pairs],
        clock=[float(np.median([run.seconds_to(ground, GOAL) for run in runs])) for ground, runs in pairs],
    )
