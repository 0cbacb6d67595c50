"""Ledger of an evolution: the requests of a search, their answers and their costs, which the service stores."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evo.client import Client
from evo.messages.view import ProposalView, VariantView
from evo.messages.view.variant import UNCOUNTED
from evo.variants.evolve.message import Message
from evo.variants.evolve.operators import Information, ideas_in, operator_of, parents_of

MOST_ERROR = 2000
"""Maximum number of characters of an error that is stored."""


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """The requests to the model and the variants of one search.

    Attributes:
        service: returns the current client. It is called for each request, because the service's address may change
            when it restarts.
    """

    service: Callable[[], Client]
    search_id: int

    @property
    def proposals(self) -> tuple[ProposalView, ...]:
        """All requests of the search, in the order of their numbers."""
        return tuple(self.service().proposals(self.search_id))

    @property
    def variants(self) -> tuple[VariantView, ...]:
        """All variants of the search. Variant 0 is the family's own implementation."""
        return tuple(self.service().variants(self.search_id))

    @property
    def counted(self) -> int:
        """Number of requests that count towards `Limits.proposals`.

        Abandoned requests, and requests whose schema the provider refused, do not count.
        """
        return sum(each.state not in UNCOUNTED for each in self.proposals)

    @property
    def spent_usd(self) -> float:
        """Cost of all requests in US dollars.

        A request counts with its maximum cost while its cost is unknown, and with 0 if the provider did not charge for
        it.
        """
        return sum(each.usd for each in self.proposals)

    def begin(
        self,
        operator: str,
        messages: Sequence[Message],
        *,
        model: str,
        information: Information,
        usd: float,
        repairs: int | None,
    ) -> ProposalView:
        """Record a request before it is sent, with its maximum cost `usd`.

        Args:
            repairs: number of the request whose variant this request repairs; None if it is not a repair.
        """
        return self.service().add_proposal(
            self.search_id,
            operator=operator,
            information=information,
            model=model,
            prompt=json.dumps([vars(each) for each in messages], ensure_ascii=False),
            usd=usd,
            repairs=repairs,
        )

    def note(self, number: int, **answer: object) -> ProposalView:
        """Record the answer to a request, or why there is none."""
        return self.service().answer_proposal(self.search_id, number, **answer)

    def annotate(
        self, proposal: ProposalView, text: str, *, error: str | None = None, insight: str = ""
    ) -> ProposalView:
        """Record the error or the insight of an answer whose tokens and cost are known."""
        return self.note(
            proposal.number,
            answer=text,
            tokens_in=proposal.tokens_in or 0,
            tokens_out=proposal.tokens_out or 0,
            usd=proposal.usd,
            error=None if error is None else error[:MOST_ERROR],
            insight=insight,
        )

    def parents(self, proposal: ProposalView) -> tuple[int, ...]:
        """Return the parents of an earlier run's proposal. They are not stored, so they are computed again."""
        earlier = [each for each in self.proposals if each.number < proposal.number]
        if proposal.repairs is not None:
            earlier = [each for each in earlier if each.number < proposal.repairs]
        made_from = {each.variant for each in earlier}
        known = [each for each in self.variants if each.number == 0 or each.number in made_from]
        ideas = ideas_in(earlier)
        return parents_of(operator_of(ideas, known), known, ideas)
