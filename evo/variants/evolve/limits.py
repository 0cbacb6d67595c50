"""Limits of an evolution of variants."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, TypeAlias

End: TypeAlias = Literal["proposals", "usd", "minutes", "share", "model"]
"""Reason why an evolution ends: the name of a limit, or ``model`` if the model no longer answers."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of an evolution; None means no limit.

    Attributes:
        proposals: maximum number of requests to the model over all runs on the search. Repairs also count; abandoned
            requests, and requests whose schema the provider refused, do not.
        usd: maximum cost of all requests for the search in US dollars. A request that could exceed it is not sent.
        minutes: minutes after which this run sends no more requests. The last request and its variant's trials may
            end later.
        share: the run ends when a variant reaches this fraction of the roofline limit (shortest possible time divided
            by the variant's time).
        repairs: maximum number of requests to repair one proposal.
        trials: maximum number of trials of each variant.
    """

    proposals: int | None = None
    usd: float | None = None
    minutes: float | None = None
    share: float | None = None
    repairs: int = 2
    trials: int | None = None

    def reached(self, *, proposals: int, elapsed_s: float, shares: Collection[float]) -> End | None:
        """Return the limit that a run has reached; None if it has reached none.

        The limit `usd` is not checked here, because it depends on the cost of the next request.

        Args:
            proposals: number of requests so far that count; see the attribute `proposals`.
            elapsed_s: duration of this run in seconds.
            shares: fraction of the roofline limit that each variant reaches.
        """
        if self.proposals is not None and proposals >= self.proposals:
            return "proposals"
        if self.minutes is not None and elapsed_s >= 60 * self.minutes:
            return "minutes"
        if self.share is not None and max(shares, default=0.0) >= self.share:
            return "share"
        return None
