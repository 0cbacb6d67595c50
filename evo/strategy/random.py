"""Uniform random search without repetition: the baseline for all other strategies."""

import numpy as np

from evo.strategy.base import Context, strategy
from evo.strategy.parts.initial_design import InitialDesign
from evo.strategy.parts.observations import Observations
from evo.trial import Proposal
from evo.trial.history import History


@strategy("random")
class RandomSearch:
    """Proposes a random valid config that was not proposed before; all such configs are equally likely.

    While no config works, it proposes configs with new pairs of values instead; see `InitialDesign.spread`.
    """

    def __init__(self, context: Context) -> None:
        self._space = context.space
        self._seen = Observations(context.space)
        self._initial_design = InitialDesign(context)

    def propose(self, history: History, rng: np.random.Generator) -> Proposal | None:
        self._seen.refresh(history)
        if self._initial_design.fruitless(self._seen):
            return self._initial_design.spread(self._seen, rng)
        drawn = self._space.sample(rng, 1, exclude=self._seen.keys)
        return Proposal(config=drawn[0], origin="random") if drawn else None
