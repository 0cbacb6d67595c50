"""Limit the influence of advice: one part of the search uses it, another proposes as if it did not exist."""

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
        origin: origin given to the proposals; None: the operator that made them.
    """

    seen: Observations
    surrogate: Surrogate
    origin: str | None = None


class LogViews:
    """A view of the search that uses all trials, and an independent one that ignores the advice and its descendants.

    A config that was fast elsewhere may be the best of the wrong region, yet better than all first results, so that a
    search that uses it stays there. The independent view finds the configs of a search without advice, in at most 4/3
    of the trials. Once it has found a config as fast, it gets all trials.

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
        """True if the advice did not help: enough advised trials have ended, and the independent view found a config as
        fast.
        """
        return refuted(self.whole.seen, self.independent.seen)

    def at(self, trial: int) -> LogView:
        """Return the view that proposes this trial, counted from the end of the initial design."""
        return self.whole if _leads(self.whole.seen, self.independent.seen) and trial % EVERY == 0 else self.independent


def refuted(observations: Observations, independent: Observations) -> bool:
    """Return True if the advice did not help: enough advised trials have ended, and the others found a config as fast.

    Args:
        observations: observations of all trials.
        independent: observations of the trials that do not descend from the advice.
    """
    ended = len(observations.rows) - len(independent.rows)
    return ended >= BEFORE and independent.measured > 0 and not _leads(observations, independent)


def _leads(observations: Observations, independent: Observations) -> bool:
    """True if the best config so far descends from the advice."""
    inf = float("inf")
    return bool(observations.losses.min(initial=inf) < independent.losses.min(initial=inf))


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
