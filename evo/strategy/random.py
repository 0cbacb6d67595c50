"""Uniform random search without repetition: the baseline for all other strategies."""

import numpy as np

from evo.strategy.base import Context, strategy
from evo.strategy.parts.observations import Observations
from evo.trial import Proposal
from evo.trial.history import History


@strategy("random")
class RandomSearch:
    """Proposes a random valid config that was not proposed before; all such configs are equally likely."""

    def __init__(self, context: Context) -> None:
        self._space = context.space
        self._seen = Observations(context.space)

    def propose(self, history: History, rng: np.random.Generator) -> Proposal | None:
        self._seen.refresh(history)
        drawn = self._space.sample(rng, 1, exclude=self._seen.keys)
        return Proposal(config=drawn[0], origin="random") if drawn else None
