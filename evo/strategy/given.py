"""A strategy that has no opening of its own, after the configs that a search is given to begin with."""

import numpy as np

from evo.history import History
from evo.strategy.base import Context, Strategy
from evo.strategy.observations import Observations
from evo.strategy.opening import Opening
from evo.trial import Proposal


class GivenFirst:
    """Advice, warm starts and the default, then whatever the strategy proposes, which learns from them as from any."""

    def __init__(self, strategy: Strategy, context: Context) -> None:
        self._strategy = strategy
        self._opening = Opening(context)
        self._seen = Observations(context.space)

    def propose(self, history: History, rng: np.random.Generator) -> Proposal | None:
        self._seen.refresh(history)
        return self._opening.start(self._seen) or self._strategy.propose(history, rng)
