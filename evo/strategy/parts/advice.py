"""Who proposes the next trial of a search that was given advice: one that knows of it, or one that does not."""

from copy import copy
from dataclasses import dataclass, replace

from evo.space import Space
from evo.strategy.parts.initial_design import ADVICE, BEFORE
from evo.strategy.parts.observations import Observations
from evo.strategy.parts.surrogate import Surrogate
from evo.trial.history import History

ADVISED = "advised"
"""Origin of the proposals that know of the advice."""

EVERY = 4
"""Of so many trials one goes to who knows of the advice, as long as that leads."""


@dataclass(frozen=True, kw_only=True)
class Standpoint:
    """What proposals rest on: the trials that are known, and who judges by them.

    Attributes:
        origin: what the proposals are called; None: by the operator that made them.
    """

    seen: Observations
    surrogate: Surrogate
    origin: str | None = None


class Standpoints:
    """A search that knows all, and one within it to which the advice and all that came of it is unknown.

    What was fast elsewhere may be the best of the wrong region, better than all that is found at first, so that
    a search which knows of it stays there. The independent one finds what it would have found without advice, in 4/3 of
    the trials at most; once it has found something as fast as the other, all trials are its own.

    Attributes:
        whole: knows every trial.
        independent: knows those that owe nothing to the advice; the same as `whole` where there is none.
    """

    def __init__(self, space: Space, surrogate: Surrogate, *, advised: bool) -> None:
        self.whole = self.independent = Standpoint(seen=Observations(space), surrogate=surrogate)
        if advised:
            self.whole = replace(self.whole, origin=ADVISED)
            hidden = Observations(space, hidden=(ADVICE, ADVISED))
            self.independent = Standpoint(seen=hidden, surrogate=copy(surrogate))

    def refresh(self, history: History) -> None:
        """Take in what was asked and what ended since the last call."""
        self.whole.seen.refresh(history)
        if self.independent is not self.whole:
            self.independent.seen.refresh(history)

    @property
    def refuted(self) -> bool:
        """Whether so much of the advice has ended that no more is wanted, with something as fast found without it."""
        return refuted(self.whole.seen, self.independent.seen)

    def at(self, trial: int) -> Standpoint:
        """Whose turn it is, at so many trials from the end of the opening."""
        return self.whole if _leads(self.whole.seen, self.independent.seen) and trial % EVERY == 0 else self.independent


def refuted(whole: Observations, independent: Observations) -> bool:
    """Whether so much of the advice has ended that no more is wanted, with something as fast found without it.

    Args:
        whole: sees all trials.
        independent: sees those that owe nothing to the advice.
    """
    ended = len(whole.rows) - len(independent.rows)
    return ended >= BEFORE and independent.measured > 0 and not _leads(whole, independent)


def _leads(whole: Observations, independent: Observations) -> bool:
    """Whether the best so far is owed to the advice."""
    inf = float("inf")
    return bool(whole.losses.min(initial=inf) < independent.losses.min(initial=inf))
