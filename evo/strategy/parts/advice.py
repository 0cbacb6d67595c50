"""Limits the influence of advice: after the first trials, at most one proposal in four uses it."""

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
"""While the best config is advice or derived from advice, one trial in `EVERY` uses the advice."""


@dataclass(frozen=True, kw_only=True)
class LogView:
    """The trials and the surrogate model on which a proposal is based.

    Attributes:
        seen: the trials.
        surrogate: the model trained on them.
        origin: origin recorded for the proposal. If None, the operator that suggested the config is recorded.
    """

    seen: Observations
    surrogate: Surrogate
    origin: str | None = None


class LogViews:
    """Two views of a search: all trials, and the trials that are neither advice nor derived from advice.

    Advised configs may be faster than all early trials, but far from the best config. A search that learns from advised
    configs then stays near these configs. Three of four proposals therefore use only the independent view. These
    proposals find what a search without advice would find, so the search needs at most a third more trials than a
    search without advice. Once the best config of the independent view is as fast as the best advised config, all
    proposals use the independent view.

    Attributes:
        whole: view of all trials.
        independent: view of the trials that are neither advice nor derived from advice. If there is no advice, it is
            `whole`.
    """

    def __init__(self, space: Space, surrogate: Surrogate, *, advised: bool) -> None:
        self.whole = self.independent = LogView(seen=Observations(space), surrogate=surrogate)
        if advised:
            self.whole = replace(self.whole, origin=ADVISED)
            hidden = Observations(space, hidden=(ADVICE, ADVISED))
            self.independent = LogView(seen=hidden, surrogate=copy(surrogate))

    def refresh(self, history: History) -> None:
        """Read the trials that were proposed, ended or corrected since the last call."""
        self.whole.seen.refresh(history)
        if self.independent is not self.whole:
            self.independent.seen.refresh(history)

    @property
    def refuted(self) -> bool:
        """True if an independent config is as fast as every advised config; see the function `refuted`."""
        return refuted(self.whole.seen, self.independent.seen)

    def at(self, trial: int) -> LogView:
        """Return the view to use for a proposal.

        Args:
            trial: number of the proposal, counted from the end of the initial design.
        """
        return self.whole if _leads(self.whole.seen, self.independent.seen) and trial % EVERY == 0 else self.independent


def refuted(observations: Observations, independent: Observations) -> bool:
    """Return True if at least `BEFORE` advised trials have ended, and an independent config is as fast as all of them.

    Args:
        observations: observations of all trials.
        independent: observations of the trials that are neither advice nor derived from advice.
    """
    ended = len(observations.rows) - len(independent.rows)
    return ended >= BEFORE and independent.measured > 0 and not _leads(observations, independent)


def _leads(observations: Observations, independent: Observations) -> bool:
    """Return True if the best config so far is advice or derived from advice."""
    inf = float("inf")
    return bool(observations.losses.min(initial=inf) < independent.losses.min(initial=inf))


class WarmStartsFirst:
    """Proposes advice, warm starts and the default config first, and then the configs of a given strategy.

    The given strategy also learns from the results of the first trials. When a config that is not advice is as fast
    as the best advised config (`refuted`), the remaining advice is skipped.
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
