"""Limits the influence of advice: at most every fourth proposal uses it, and the other proposals ignore it."""

from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from evo.space import Space
from evo.strategy.base import Context, Strategy
from evo.strategy.parts.initial_design import ADVICE, BEFORE, InitialDesign
from evo.strategy.parts.observations import Observations
from evo.strategy.parts.surrogate import Surrogate
from evo.trial import Proposal
from evo.trial.history import History

ADVISED = "advised"
"""Origin of proposals that use the advice."""

EVERY = 4
"""While the advice leads, one trial in `EVERY` uses it."""


@dataclass(frozen=True, kw_only=True)
class LogView:
    """The trials and the surrogate on which proposals are based.

    Attributes:
        origin: origin recorded for the proposals; None: the name of the operator that suggested the config.
    """

    seen: Observations
    surrogate: Surrogate
    origin: str | None = None


class LogViews:
    """Two views of a search: one uses all trials, the independent one ignores the advice and its descendants.

    Advice may lie in a region without the best config and still beat all early results. A search that uses the advice
    then stays in that region. The independent view finds what a search without advice would find, in at most 4/3 of the
    trials. Once its best config is as fast as the best advised config, it makes all proposals.

    Attributes:
        whole: uses every trial.
        independent: uses the trials that do not descend from the advice; the same as `whole` where there is no advice.
    """

    def __init__(self, space: Space, surrogate: Surrogate, *, advised: bool) -> None:
        self.whole = self.independent = LogView(seen=Observations(space), surrogate=surrogate)
        if advised:
            self.whole = replace(self.whole, origin=ADVISED)
            hidden = Observations(space, hidden=(ADVICE, ADVISED))
            self.independent = LogView(seen=hidden, surrogate=copy(surrogate))

    def refresh(self, history: History) -> None:
        """Read the trials that were proposed or ended since the last call."""
        self.whole.seen.refresh(history)
        if self.independent is not self.whole:
            self.independent.seen.refresh(history)

    @property
    def refuted(self) -> bool:
        """True if the advice did not help, see `refuted`."""
        return refuted(self.whole.seen, self.independent.seen)

    def at(self, trial: int) -> LogView:
        """Return the view that proposes a trial; `trial` is counted from the end of the initial design."""
        return self.whole if _leads(self.whole.seen, self.independent.seen) and trial % EVERY == 0 else self.independent


def refuted(observations: Observations, independent: Observations) -> bool:
    """Return True if enough advised trials have ended and the independent trials found a config that is as fast.

    Args:
        observations: observations of all trials.
        independent: observations of the trials that do not descend from the advice.
    """
    ended = len(observations.rows) - len(independent.rows)
    return ended >= BEFORE and independent.measured > 0 and not _leads(observations, independent)


def _leads(observations: Observations, independent: Observations) -> bool:
    """Return True if the best config so far descends from the advice."""
    inf = float("inf")
    return bool(observations.losses.min(initial=inf) < independent.losses.min(initial=inf))


class WarmStartsFirst:
    """Proposes advice, warm starts and the default config first; then a strategy, which learns from these trials.

    Once the advice is refuted, the remaining advice is skipped.
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
