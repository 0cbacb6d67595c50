"""Measures the value of a failure model in spaces where most configs fail.

Each recorded config gets a synthetic resource demand: a randomly weighted sum of its value indices. Configs with
the largest demands fail, but the best config never fails.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evo.strategy import STRATEGIES
from evo.trial.outcome import CompileFailed
from tests.bench.strategy.ground import Ground
from tests.bench.strategy.ours import OurPlayer
from tests.bench.strategy.run import Course
from tests.bench.strategy.scores import by_evaluations
from tests.bench.strategy.simulate import Simulation
from tests.bench.strategy.variants import VARIANTS

FAIL = 0.8
"""Fraction of the configs that fail."""

SHARE = 0.2
"""Fraction of the seeds that are run."""

TRIALS = 100
PIECE = "without the success probability"
SEED = 3


@dataclass(frozen=True, kw_only=True)
class Toll:
    """Results of searches in a space where most configs fail.

    Attributes:
        p100: score after 100 evaluations, with random search calculated over the configs that work.
        failed: fraction of failed trials.
    """

    p100: float
    failed: float


def barred(ground: Ground, share: float = FAIL) -> Ground:
    """Return a copy of the recording in which the fraction `share` of the configs fails."""
    rng = np.random.default_rng(SEED)
    indices = np.array([ground.space.encode(entry.config) for entry in ground.entries])
    spans = np.maximum(indices.max(axis=0), 1)
    best = int(ground.times_us.argmin())
    demand, limit = np.zeros(len(indices)), 0.0
    while not demand[best] < limit:
        demand = (indices / spans) @ rng.normal(size=indices.shape[1])
        limit = float(np.quantile(demand, 1 - share))
    fails = demand > limit
    times_us = np.where(fails, np.inf, ground.times_us)
    failed = CompileFailed(log="too demanding")
    return replace(
        ground,
        entries=[replace(e, outcome=failed) if bad else e for e, bad in zip(ground.entries, fails, strict=True)],
        times_us=times_us,
        falling_us=np.sort(times_us[np.isfinite(times_us)])[::-1],
    )


def compare(grounds: Sequence[Ground], strategy: str, seeds: int) -> dict[str, list[Toll]]:
    """Return the results with and without failure model, by space."""
    factories = {strategy: STRATEGIES[strategy], PIECE: VARIANTS[PIECE]}
    hard = [barred(ground) for ground in grounds]
    course = Course(clock="steps", trials=TRIALS)
    found = {}
    for name, factory in factories.items():
        plays = [
            [Simulation(each, OurPlayer(each, factory, seed), course).play() for seed in range(seeds)] for each in hard
        ]
        found[name] = [
            Toll(
                p100=float(by_evaluations(each, np.array([run.best_us(each, TRIALS) for run in runs]), (TRIALS,))[0]),
                failed=float(np.mean([np.isinf(each.times_us[run.places]).mean() for run in runs])),
            )
            for each, runs in zip(hard, plays, strict=True)
        ]
    return found
