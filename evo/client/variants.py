"""Requests about variants of searches."""

from collections.abc import Mapping, Sequence
from typing import Any

from evo.client.calls import Calls
from evo.client.transport import parse
from evo.messages.view import BriefView, ProposalView, VariantSource, VariantView


class Variants(Calls):
    """Requests about variants and proposals."""

    def submit_variant(
        self,
        search_id: int,
        files: Mapping[str, str],
        *,
        document: Mapping[str, Any] | None = None,
        parents: Sequence[int] = (0,),
        trials: int | None = None,
        proposal: int | None = None,
    ) -> VariantView:
        """Submit a variant. The idempotency key ensures that it is submitted only once, even if a response is lost.

        Args:
            files: texts of the files, by name.
            document: name, author and idea, and the keys that differ from the first parent's table ``[cpu]`` or
                ``[cuda]``.
            parents: numbers of the variants from which it is derived; 0 is the family's own implementation.
            trials: maximum number of trials of the variant.
            proposal: number of the proposal that the variant comes from.
        """
        body: dict[str, Any] = {"files": files, "document": document or {}, "parents": parents, "trials": trials}
        body |= {} if proposal is None else {"proposal": proposal}
        return parse(self._send("POST", f"/searches/{search_id}/variants", body, once=True), VariantView)

    def add_proposal(
        self,
        search_id: int,
        *,
        operator: str,
        information: str,
        model: str,
        prompt: str,
        usd: float,
        repairs: int | None = None,
    ) -> ProposalView:
        """Store a request before it is sent to a model. `usd` is its maximum cost in US dollars."""
        body: dict[str, Any] = {
            "operator": operator,
            "information": information,
            "model": model,
            "prompt": prompt,
            "usd": usd,
        }
        body |= {} if repairs is None else {"repairs": repairs}
        return parse(self._send("POST", f"/searches/{search_id}/proposals", body, once=True), ProposalView)

    def answer_proposal(self, search_id: int, number: int, **answer: Any) -> ProposalView:
        """Store a model's answer: ``answer``, ``tokens_in``, ``tokens_out``, ``usd``, ``insight`` and ``error``."""
        return parse(self._send("PUT", f"/searches/{search_id}/proposals/{number}/answer", answer), ProposalView)

    def proposals(self, search_id: int) -> tuple[ProposalView, ...]:
        """Return all proposals of a search, by number."""
        return self._get(f"/searches/{search_id}/proposals", tuple[ProposalView, ...])

    def variants(self, search_id: int) -> tuple[VariantView, ...]:
        """Return the variants of a search; the family's own implementation is the first."""
        return self._get(f"/searches/{search_id}/variants", tuple[VariantView, ...])

    def variant(self, search_id: int, number: int) -> VariantView:
        return self._get(f"/searches/{search_id}/variants/{number}", VariantView)

    def variant_brief(self, search_id: int) -> BriefView:
        """Return the brief for the proposer of a variant. `evo.report.brief` converts it to Markdown."""
        return self._get(f"/searches/{search_id}/variants/brief", BriefView)

    def variant_source(self, search_id: int, number: int) -> VariantSource:
        return self._get(f"/searches/{search_id}/variants/{number}/source", VariantSource)
