"""Warm starts: what the champion of another device is worth, and what bad advice costs.

The recordings of one kernel on two devices lend each other their fastest config. Bad advice is as much of it as a
search ever takes, the slowest configs that have a time; no champion is like that, so it bounds the harm.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evo.strategy import STRATEGIES, Context, Strategy
from evo.trial import Config
from tests.bench.strategy.ground import Ground
from tests.bench.strategy.ours import OurPlayer
from tests.bench.strategy.run import Course
from tests.bench.strategy.scores import by_evaluations
from tests.bench.strategy.simulate import Simulation

TRIALS = 100
GOAL = 1 / 0.95

BAD = 5
"""Pieces of bad advice: a search takes so many champions at most."""

SHARE = 0.1
"""Of the seeds: nothing of this is kept."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """How searches of one space go that begin alike.

    Attributes:
        p100: the score after 100 evaluations.
        trials: to come within 5 % of the optimum's speed, the median; infinite when half of the runs did not.
    """

    p100: float
    trials: float


Advice = Callable[[Ground, Sequence[Ground]], Sequence[Config]]


def nothing(ground: Ground, grounds: Sequence[Ground]) -> Sequence[Config]:
    return ()


def champions(ground: Ground, grounds: Sequence[Ground]) -> Sequence[Config]:
    """The fastest config of each other recording of the same kernel, where it is valid here, too."""
    kin = [each for each in grounds if each is not ground and each.space.names == ground.space.names]
    found = [each.entries[int(each.times_us.argmin())].config for each in kin]
    return [config for config in found if ground.place(config) is not None]


def slowest(ground: Ground, grounds: Sequence[Ground]) -> Sequence[Config]:
    ranked = np.argsort(np.where(np.isfinite(ground.times_us), ground.times_us, -1.0))
    return [ground.entries[int(place)].config for place in ranked[-BAD:]]


ADVICE: dict[str, Advice] = {
    "no advice": nothing,
    "the champion of another device": champions,
    f"the {BAD} slowest configs": slowest,
}


def compare(grounds: Sequence[Ground], strategy: str, seeds: int) -> dict[str, list[Start | None]]:
    """By advice, then by space; None where nobody can give any."""
    return {
        name: [
            _start(ground, configs, strategy, seeds) if configs or advice is nothing else None
            for ground in grounds
            for configs in [advice(ground, grounds)]
        ]
        for name, advice in ADVICE.items()
    }


def _start(ground: Ground, configs: Sequence[Config], strategy: str, seeds: int) -> Start:
    def advised(context: Context) -> Strategy:
        return STRATEGIES[strategy](replace(context, warm_starts=configs))

    course = Course(clock="steps", trials=TRIALS)
    runs = [Simulation(ground, OurPlayer(ground, advised, seed), course).play() for seed in range(seeds)]
    curves = np.array([run.best_us(ground, TRIALS) for run in runs])
    return Start(
        p100=float(by_evaluations(ground, curves, (TRIALS,))[0]),
        trials=float(np.median([run.evaluations_to(ground, GOAL) for run in runs])),
    )
