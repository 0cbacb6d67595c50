"""TPE over the valid configs: candidates are drawn from the density of good configs and chosen by density ratio.

Unlike Optuna's sampler (`evo.strategy.tpe`), this strategy uses the constraints, and the time of a proposal does not
grow with the history.
"""

import numpy as np

from evo.strategy.base import Context, strategy
from evo.strategy.parts.initial_design import InitialDesign, learning
from evo.strategy.parts.observations import Observations
from evo.strategy.parts.parzen import Parzen, good_count
from evo.trial import Proposal
from evo.trial.history import History

DRAWN = 120
COMPARED = 24
"""`DRAWN` configs are drawn from the density of good configs. Of the valid and new configs, at most `COMPARED` are
scored.
"""


@strategy("parzen")
class ParzenSearch:
    """TPE on value indices. A failed trial counts as the worst result, and pending configs count as bad (constant
    liar)."""

    def __init__(self, context: Context) -> None:
        self._space = context.space
        self._seen = Observations(context.space)
        self._initial_design = InitialDesign(context)
        self._parzen = Parzen(context.space)

    def propose(self, history: History, rng: np.random.Generator) -> Proposal | None:
        seen = self._seen
        seen.refresh(history)
        if learning(seen):
            return self._initial_design.spread(seen, rng)
        drawn = self._parzen.draw(seen.rows[seen.order[: good_count(seen)]], DRAWN, rng)
        new = drawn[seen.fresh(drawn)[:COMPARED]]
        if not len(new):
            return self._initial_design.spread(seen, rng)
        return Proposal(config=self._space.decode(new[self._parzen.worth(new, seen).argmax()]), origin="parzen")
