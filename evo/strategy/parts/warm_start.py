"""Initial design for strategies without one."""

import numpy as np

from evo.strategy.base import Context, Strategy
from evo.strategy.parts.advice import refuted
from evo.strategy.parts.initial_design import ADVICE, InitialDesign
from evo.strategy.parts.observations import Observations
from evo.trial import Proposal
from evo.trial.history import History


class WarmStartsFirst:
    """Proposes advice, warm starts and the default, then the proposals of the strategy, which learns from these trials.

    Refuted advice is not continued.
    """

    def __init__(self, strategy: Strategy, context: Context) -> None:
        self._strategy = strategy
        self._initial_design = InitialDesign(context)
        self._seen = Observations(context.space)
        self._own = Observations(context.space, hidden=(ADVICE,))

    def propose(self, history: History, rng: np.random.Generator) -> Proposal | None:
        self._seen.refresh(history)
        self._own.refresh(history)
        start = self._initial_design.start(self._seen, advice=not refuted(self._seen, self._own))
        return start or self._strategy.propose(history, rng)
