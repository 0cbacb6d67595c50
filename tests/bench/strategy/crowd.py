"""Many workers that ask at once: how many more trials does it take to come within 5 % of the optimum's speed?"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.bench.strategy.field import Effort, gather
from tests.bench.strategy.ground import Ground
from tests.bench.strategy.player import Contestant
from tests.bench.strategy.run import Course

WORKERS = 32
GOAL = 1 / 0.95
MOST = 1_000
"""Trials after which a run gives up; a median beyond them is not known."""

SHARE = 0.5
"""Of the seeds: the runs are long, and a median over fifty is steady enough."""


@dataclass(frozen=True, kw_only=True)
class Crowding:
    """One contestant; trials to the goal are the median over the seeds, infinite when half of the runs gave up.

    Attributes:
        alone, together: by space, with one worker and with 32 in step.
        growth: together/alone, the geometric mean over the spaces where both are known.
    """

    alone: Sequence[float]
    together: Sequence[float]

    @property
    def growth(self) -> float:
        known = [
            (one, many) for one, many in zip(self.alone, self.together, strict=True) if np.isfinite([one, many]).all()
        ]
        return float(np.exp(np.mean([np.log(many / one) for one, many in known]))) if known else float("nan")

    @property
    def total_growth(self) -> float:
        """Of the sum over the spaces."""
        return float(np.sum(self.together) / np.sum(self.alone))


def compare(effort: Effort, contestants: Sequence[Contestant]) -> dict[str, Crowding]:
    fields = []
    fewer = Effort(
        archive=effort.archive,
        paths=effort.paths,
        seeds=max(2, round(SHARE * effort.seeds)),
        processes=effort.processes,
        share=effort.share,
    )
    for workers in (1, WORKERS):

        def course(ground: Ground, workers: int = workers) -> Course:
            return Course(workers=workers, clock="steps", trials=min(MOST, len(ground.entries)), goal=GOAL)

        fields.append(gather(fewer, contestants, course))
    return {
        each.name: Crowding(
            **{
                name: [
                    float(np.median([run.evaluations_to(ground, GOAL) for run in runs]))
                    for ground, runs in zip(field.grounds, field.runs[each.name], strict=True)
                ]
                for name, field in zip(("alone", "together"), fields, strict=True)
            }
        )
        for each in contestants
        if all(each.name in field.runs for field in fields)
    }
