"""Client methods for searches, their trials and their variants."""

import codecs
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from evo.client.calls import Calls
from evo.client.transport import parse, patience
from evo.messages.view import (
    AblationView,
    BriefView,
    Page,
    ProposalView,
    SearchView,
    TrialView,
    VariantSource,
    VariantView,
)
from evo.search.lifecycle import State

EXPORTED = {"csv": "text/csv", "json": "application/json", "ndjson": "application/x-ndjson"}
"""Media types of exported trials by format."""

EXPORT_QUIET_S = 60.0
"""Seconds without data after which an export of trials or a request for a report fails."""

SearchCommand: TypeAlias = Literal["pause", "resume", "stop", "cancel"]


class Searches(Calls):
    """Client methods for searches and their trials."""

    def create_search(self, terms: Mapping[str, Any]) -> SearchView:
        """Start a search. The idempotency key ensures that it is started only once, even if a response is lost.

        Args:
            terms: body of ``POST /searches``.
        """
        return parse(self._send("POST", "/searches", terms, once=True), SearchView)

    def searches(
        self,
        *,
        state: State | None = None,
        family: str | None = None,
        problem: str | None = None,
        device: str | None = None,
        text: str | None = None,
        archived: Literal["false", "true", "any"] | None = None,
        sort: Literal["newest", "oldest", "priority"] | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[SearchView]:
        """Return one page of the searches that match the given filters. None as a filter matches all searches.

        Args:
            cursor: the `next` of the previous page; None for the first page.
        """
        wanted = {"state": state, "family": family, "problem": problem, "device": device, "text": text}
        shown = {"archived": archived, "sort": sort, "cursor": cursor, "limit": limit}
        return self._get("/searches", Page[SearchView], **wanted, **shown)

    def edit_search(
        self,
        search_id: int,
        *,
        notes: str | None = None,
        priority: int | None = None,
        archived: bool | None = None,
        seen: str | None = None,
    ) -> SearchView:
        """Change the given fields of a search. A field that is None keeps its value.

        Args:
            seen: expected entity tag; None skips the check.
        """
        changes = {"notes": notes, "priority": priority, "archived": archived}
        body = {name: value for name, value in changes.items() if value is not None}
        return parse(self._send("PATCH", f"/searches/{search_id}", body, seen=seen), SearchView)

    def delete_search(self, search_id: int, *, seen: str | None = None) -> None:
        """Delete an ended search with its trials.

        Args:
            seen: expected entity tag; None skips the check.

        Raises:
            Conflict: the search has not ended, a champion's evidence depends on it, or its entity tag is not `seen`.
        """
        self._send("DELETE", f"/searches/{search_id}", repeat=False, seen=seen)

    def search(self, search_id: int) -> SearchView:
        return self._get(f"/searches/{search_id}", SearchView)

    def command(self, search_id: int, command: SearchCommand) -> SearchView:
        return parse(self._send("POST", f"/searches/{search_id}/{command}"), SearchView)

    def ablate(self, search_id: int, *, values: bool = False) -> SearchView:
        """Start an ablation, which measures the effect of each switch of a finished search's champion.

        A switch is a tunable with booleans or strings as values, or with only two values.

        Args:
            values: True to also change each tunable that is not a switch, to the values next to the champion's value.

        Raises:
            Conflict: the search has not finished, the current champion was not found by it, or there is nothing to
                change.
        """
        return parse(self._send("POST", f"/searches/{search_id}/ablation", {"values": values}, once=True), SearchView)

    def ablation(self, search_id: int) -> tuple[AblationView, ...]:
        """Return each change of a config in the search's ablations, with its latest result.

        Changes that no valid config contains are included; they have no result.
        """
        return self._get(f"/searches/{search_id}/ablation", tuple[AblationView, ...])

    def trials(
        self,
        search_id: int,
        *,
        sort: Literal["number", "-number", "rank"] = "number",
        outcome: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[TrialView]:
        path = f"/searches/{search_id}/trials"
        return self._get(path, Page[TrialView], sort=sort, outcome=outcome, cursor=cursor, limit=limit)

    def every_trial(
        self, search_id: int, *, sort: Literal["number", "rank"] = "number", outcome: str | None = None
    ) -> Iterator[TrialView]:
        """Yield the trials of a search. Pages are requested as needed.

        Args:
            outcome: kind of outcome of the trials to return; None for all trials.
        """
        cursor: str | None = None
        while True:
            page = self.trials(search_id, sort=sort, outcome=outcome, cursor=cursor, limit=500)
            yield from page.items
            if (cursor := page.next) is None:
                return

    def front(self, search_id: int) -> tuple[TrialView, ...]:
        """Return the Pareto front of a search with two objectives, sorted by the first objective.

        If the search has a single objective that is a metric, the two objectives are the time and this metric.

        Raises:
            Conflict: the only objective of the search is the time.
        """
        return self._get(f"/searches/{search_id}/front", tuple[TrialView, ...])

    def export_trials(
        self,
        search_id: int,
        form: Literal["csv", "json", "ndjson"],
        *,
        sort: str = "number",
        outcome: str | None = None,
    ) -> Iterator[str]:
        """Yield the text of a file with the trials of a search, in chunks as they arrive.

        Args:
            form: format of the file.
            outcome: kind of outcome of the trials to export; None for all trials.
        """
        parameters = {"sort": sort} | ({} if outcome is None else {"outcome": outcome})
        path = f"/searches/{search_id}/trials.{form}"
        with self._transport.stream(
            path, params=parameters, quiet_s=EXPORT_QUIET_S, media_type=EXPORTED[form]
        ) as pieces:
            yield from codecs.iterdecode(pieces, "utf-8")

    def search_report(
        self,
        search_id: int,
        form: Literal["md", "html"],
        *,
        cost_per_hour: float | None = None,
        calls_per_second: float | None = None,
        targets: str | None = None,
    ) -> bytes:
        """Return the report of a search as Markdown or HTML.

        Args:
            cost_per_hour: cost per hour of the machines; None for the rate in the search's budget.
            calls_per_second: number of calls of the kernel per second in production; None if unknown.
            targets: targets in the form ``conservative=800us,dream=2x``; None for no targets.
        """
        terms = {"cost_per_hour": cost_per_hour, "calls_per_second": calls_per_second, "targets": targets}
        parameters = {name: value for name, value in terms.items() if value is not None}
        path = f"/searches/{search_id}/report.{form}"
        return self._transport.request("GET", path, params=parameters, timeout=patience(EXPORT_QUIET_S)).content

    def numbered_trial(self, search_id: int, number: int) -> TrialView:
        """Return the trial with a given number in a search."""
        return self._get(f"/searches/{search_id}/trials/{number}", TrialView)

    def trial(self, trial_id: int) -> TrialView:
        return self._get(f"/trials/{trial_id}", TrialView)


class Variants(Calls):
    """Client methods for variants and for proposals (requests to language models)."""

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
            files: contents of the files, by name.
            document: name, author and idea, and the keys that differ from the first parent's table ``[cpu]`` or
                ``[cuda]``. None if no key differs.
            parents: numbers of the parent variants; 0 is the family's own implementation.
            trials: maximum number of trials of the variant; None if only the search's limits apply.
            proposal: number of the request to a language model whose answer contains the variant. None if no language
                model wrote the variant.
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
        """Store a request to a language model before it is sent.

        Args:
            operator, information: how the request was composed; see `evo.variants.evolve.operators`.
            usd: maximum cost of the request in US dollars.
            repairs: number of the failed proposal that this request repairs; None if it is not a repair.
        """
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
        """Store a model's answer.

        Args:
            answer: fields ``answer``, ``tokens_in``, ``tokens_out``, ``usd``, ``insight`` and ``error``.
        """
        return parse(self._send("PUT", f"/searches/{search_id}/proposals/{number}/answer", answer), ProposalView)

    def proposals(self, search_id: int) -> tuple[ProposalView, ...]:
        """Return all proposals of a search, sorted by number."""
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
