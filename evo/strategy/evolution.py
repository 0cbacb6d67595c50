"""Steady-state evolution: each proposal is a child of the best trials that have ended so far."""

from dataclasses import replace

import numpy as np

from evo.strategy.base import Context, strategy
from evo.strategy.parts.breeding import Breeding
from evo.strategy.parts.initial_design import InitialDesign, learning
from evo.strategy.parts.observations import Observations
from evo.strategy.parts.suggestions import Suggestions
from evo.trial import Proposal
from evo.trial.history import History

BROOD = 32
"""Number of children that are bred for one proposal. The first valid child that was not proposed before is proposed. If
there is none, the first child is repaired.
"""


@strategy("evolution")
class Evolution:
    """Evolution whose parents are the best trials so far. There are no generations, so no worker waits for another."""

    def __init__(self, context: Context) -> None:
        self._space = context.space
        self._seen = Observations(context.space)
        self._initial_design = InitialDesign(context)
        self._breeding = Breeding(context.space)

    def propose(self, history: History, rng: np.random.Generator) -> Proposal | None:
        self._seen.refresh(history)
        if learning(self._seen):
            return self._initial_design.spread(self._seen, rng)
        brood = self._breeding.brood(self._seen, BROOD, rng)
        new = self._seen.fresh(brood.rows)
        if len(new):
            return brood.proposal(int(new[0]), self._space, self._seen)
        return self._repaired(brood, rng) or self._initial_design.spread(self._seen, rng)

    def _repaired(self, brood: Suggestions, rng: np.random.Generator) -> Proposal | None:
        """Return the valid config nearest to the first child; None if this config was proposed before."""
        config = self._space.repair(brood.rows[0], rng)
        if self._space.key(config) in self._seen.keys:
            return None
        mended = replace(brood, rows=self._space.encode(config)[None, :])
        return mended.proposal(0, self._space, self._seen)
