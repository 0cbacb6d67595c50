"""Elite-preserving evolution in a steady state: every trial that ends may become a parent of the very next."""

from dataclasses import replace

import numpy as np

from evo.strategy.base import Context, strategy
from evo.strategy.parts.breeding import Breeding
from evo.strategy.parts.initial_design import Opening, learning
from evo.strategy.parts.observations import Observations
from evo.strategy.parts.suggestions import Suggestions
from evo.trial import Proposal
from evo.trial.history import History

BROOD = 32
"""Children bred at once, of which the first that is new is taken."""


@strategy("evolution")
class Evolution:
    """No generations, hence no barrier to wait at: the elites are simply the best trials of the history."""

    def __init__(self, context: Context) -> None:
        self._space = context.space
        self._seen = Observations(context.space)
        self._opening = Opening(context)
        self._breeding = Breeding(context.space)

    def propose(self, history: History, rng: np.random.Generator) -> Proposal | None:
        self._seen.refresh(history)
        if learning(self._seen):
            return self._opening.spread(self._seen, rng)
        brood = self._breeding.brood(self._seen, BROOD, rng)
        new = self._seen.fresh(brood.rows)
        if len(new):
            return brood.proposal(int(new[0]), self._space, self._seen)
        return self._repaired(brood, rng) or self._opening.spread(self._seen, rng)

    def _repaired(self, brood: Suggestions, rng: np.random.Generator) -> Proposal | None:
        """The first child, moved to the nearest valid config, unless that is known."""
        config = self._space.repair(brood.rows[0], rng)
        if self._space.key(config) in self._seen.keys:
            return None
        mended = replace(brood, rows=self._space.encode(config)[None, :])
        return mended.proposal(0, self._space, self._seen)
