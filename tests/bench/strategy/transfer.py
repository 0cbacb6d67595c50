"""Measures the value of advice from another device, and the cost of bad advice.

The fastest config of a kernel on one device is the advice for the kernel's recording on another device. There are two
kinds of bad advice: a local optimum far from the best config, and the slowest configs. The number of configs is the
maximum number of champions that a search uses. For comparison, the same configs are used as warm start, which the
strategy trusts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

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
"""Number of bad configs. A search uses at most this number of champions."""

DECEPTIVE = (1.2, 2.0)
"""Range of a misleading config's time, relative to the optimum. Such a config is fast enough to keep a search near it.
"""

SHARE = 0.1
"""Fraction of the seeds that are run. These runs are not stored."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """Results of searches of one space with one kind of advice.

    Attributes:
        p100: mean score over 10 to 100 evaluations.
        trials: median number of trials until a config is within 5 % of the optimum's speed; infinite if half of the
            runs found no such config.
    """

    p100: float
    trials: float


Advice = Callable[[Ground, Sequence[Ground]], Sequence[Config]]
Way = Literal["advice", "warm_starts"]


def nothing(ground: Ground, grounds: Sequence[Ground]) -> Sequence[Config]:
    return ()


def champions(ground: Ground, grounds: Sequence[Ground]) -> Sequence[Config]:
    """Return the fastest configs of the kernel on other devices, if they are valid in this space."""
    kin = [each for each in grounds if each is not ground and each.space.names == ground.space.names]
    found = [each.entries[int(each.times_us.argmin())].config for each in kin]
    return [config for config in found if ground.place(config) is not None]


def misleading(ground: Ground, grounds: Sequence[Ground]) -> Sequence[Config]:
    """Return the local optimum with a relative time within `DECEPTIVE` that differs most from the best config."""
    best = ground.space.encode(ground.entries[int(ground.times_us.argmin())].config)
    ratios = ground.times_us / ground.optimum_us
    near = np.flatnonzero((ratios >= DECEPTIVE[0]) & (ratios <= DECEPTIVE[1]))
    apart = {int(place): int((ground.space.encode(ground.entries[place].config) != best).sum()) for place in near}
    for place in sorted(apart, key=lambda place: (-apart[place], ratios[place])):
        config = ground.entries[place].config
        around = [ground.place(each) for each in ground.space.neighbours(config, "hamming")]
        if all(ratios[each] >= ratios[place] for each in around if each is not None):
            return [config]
    return ()


def slowest(ground: Ground, grounds: Sequence[Ground]) -> Sequence[Config]:
    ranked = np.argsort(np.where(np.isfinite(ground.times_us), ground.times_us, -1.0))
    return [ground.entries[int(place)].config for place in ranked[-BAD:]]


ADVICE: dict[str, tuple[Advice, Way]] = {
    "no advice": (nothing, "advice"),
    "the champion of another device": (champions, "advice"),
    "the champion as a warm start": (champions, "warm_starts"),
    "a local optimum far from the best config": (misleading, "advice"),
    f"the {BAD} slowest configs": (slowest, "advice"),
}


def compare(grounds: Sequence[Ground], strategy: str, seeds: int) -> dict[str, list[Start | None]]:
    """Return results by kind of advice and by space; None if there is no such advice."""
    return {
        name: [
            _start(ground, configs, way=way, strategy=strategy, seeds=seeds) if configs or advice is nothing else None
            for ground in grounds
            for configs in [advice(ground, grounds)]
        ]
        for name, (advice, way) in ADVICE.items()
    }


def _start(ground: Ground, begun: Sequence[Config], *, way: Way, strategy: str, seeds: int) -> Start:
    def advised(context: Context) -> Strategy:
        started = replace(context, advice=begun) if way == "advice" else replace(context, warm_starts=begun)
        return STRATEGIES[strategy](started)

    course = Course(clock="steps", trials=TRIALS)
    runs = [Simulation(ground, OurPlayer(ground, advised, seed), course).play() for seed in range(seeds)]
    curves = np.array([run.best_us(ground, TRIALS) for run in runs])
    return Start(
        p100=float(by_evaluations(ground, curves, (TRIALS,))[0]),
        trials=float(np.median([run.evaluations_to(ground, GOAL) for run in runs])),
    )
