"""Requests to language models for variants."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

ProposalState: TypeAlias = Literal["asked", "abandoned", "failed", "answered", "submitted"]
ABANDONED = "the program that asked ended before the answer came"


@dataclass(frozen=True, kw_only=True)
class ProposalView:
    """One request to a language model, with its result.

    Attributes:
        number: among the proposals of the search, from 1.
        operator, information: how the request was made, see `evo.variants.evolve.operators`.
        repairs: the proposal whose failure this one repairs; None for a new idea.
        answer: None while the model has not answered, and if the program was killed before.
        usd: cost; while there is no answer, the most that the request can cost.
        asked_s: seconds since `asked_at` by the service's clock, which may differ from the reader's.
        insight: what the model says it learned.
        error: why it gave no variant.
        variant: number of the variant that was submitted.
    """

    number: int
    operator: str
    information: str
    model: str
    prompt: str
    answer: str | None
    tokens_in: int | None
    tokens_out: int | None
    usd: float
    asked_at: datetime
    answered_at: datetime | None
    asked_s: float | None = None
    repairs: int | None = None
    insight: str = ""
    error: str | None = None
    variant: int | None = None

    @property
    def state(self) -> ProposalState:
        """State of the request: ``asked`` while it waits for its answer, ``abandoned`` if no program waits any
        longer.
        """
        if self.variant is not None:
            return "submitted"
        if self.error == ABANDONED:
            return "abandoned"
        if self.error is not None:
            return "failed"
        return "asked" if self.answered_at is None else "answered"
