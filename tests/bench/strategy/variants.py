"""The default strategy with one piece changed, for the ablation table: what is each piece worth, on how many spaces?

A variant is named for what is different, ``without …`` or ``only …``, and is built like any strategy.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from evo.space import Indices
from evo.strategy import Context, Strategy
from evo.strategy.observations import Observations
from evo.strategy.portfolio import ARMS, Portfolio
from evo.strategy.surrogate import Forecast, Surrogate


class Dice(Surrogate):
    """Judges by chance, so that the arms are on their own."""

    def forecast(self, rows: Indices, seen: Observations) -> Forecast:
        guess = np.random.default_rng((len(rows), len(seen.keys))).random(len(rows))
        return Forecast(mean=guess, deviation=np.ones(len(rows)), best=0.0, success=np.ones(len(rows)))


class Fearless(Surrogate):
    """Thinks that every config will work."""

    def forecast(self, rows: Indices, seen: Observations) -> Forecast:
        found = super().forecast(rows, seen)
        return Forecast(mean=found.mean, deviation=found.deviation, best=found.best, success=np.ones(len(rows)))


def _without(arm: str) -> Callable[[Context], Strategy]:
    return partial(Portfolio, arms=tuple(each for each in ARMS if each != arm))


VARIANTS: dict[str, Callable[[Context], Strategy]] = {
    **{f"without {arm}": _without(arm) for arm in ARMS},
    "without the surrogate": lambda context: Portfolio(context, surrogate=Dice(context.space)),
    "without alignment": lambda context: Portfolio(context, surrogate=Surrogate(context.space, aligned=False)),
    "without the chance of success": lambda context: Portfolio(context, surrogate=Fearless(context.space)),
    "without greedy proposals": partial(Portfolio, greedy=0.0),
}
