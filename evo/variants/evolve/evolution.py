"""Evolution of variants by a language model: requests, submits and repairs variants until a limit is reached."""

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Literal, TypeAlias

from evo.client import Client
from evo.errors import Conflict, InvalidInput
from evo.messages.view import ProposalView, VariantView
from evo.messages.view.variant import ABANDONED, NO_SCHEMA, UNCOUNTED
from evo.variants.evolve.answer import Idea, read_idea
from evo.variants.evolve.chat import Chat
from evo.variants.evolve.insights import Log, insights
from evo.variants.evolve.message import LENGTH, Answer, Message, ModelFailed, Prices, SchemaRefused
from evo.variants.evolve.operators import (
    REPAIR,
    Information,
    failure_of,
    idea_messages,
    ideas_in,
    operator_of,
    parents_of,
    repair_message,
)

End: TypeAlias = Literal["proposals", "usd", "minutes", "share", "model"]
EARLIER_SEARCHES = 20
"""Maximum number of earlier searches of the family on the same device model whose insights are used."""

MOST_INSIGHTS = 8
MOST_REPEATED = 100_000
"""Maximum number of characters of a failed answer that the request to repair it repeats."""

MODEL_FAILURES = 3
"""Maximum number of consecutive requests without an answer before the run ends."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of an evolution; None means no limit.

    Attributes:
        proposals: maximum number of requests to the model over all runs on the search. Repairs also count.
        usd: maximum cost of all requests for the search in US dollars. A request that could exceed it is not sent.
        minutes: minutes after which this run sends no more requests. The last request and its variant's trials may
            end later.
        share: the run ends when a variant reaches this fraction of the roofline limit (shortest possible time divided
            by the variant's time).
        repairs: maximum number of repair requests per idea.
        trials: maximum number of trials of each variant.
    """

    proposals: int | None = None
    usd: float | None = None
    minutes: float | None = None
    share: float | None = None
    repairs: int = 2
    trials: int | None = None


@dataclass(kw_only=True)
class Evolution:
    """One run of the evolution of a search's variants. A later run can continue, because the service stores all state.

    Attributes:
        service: returns the current client. It is called for each request, because the service's address may change
            when it restarts.
        wait: function that waits until all trials of a variant have ended, and returns the variant's new state.
        report: function that is called after each request, with the recorded proposal and its variant (None if the
            answer contained no valid variant).
    """

    service: Callable[[], Client]
    search_id: int
    chat: Chat
    prices: Prices
    limits: Limits
    information: Information
    wait: Callable[[VariantView], VariantView]
    report: Callable[[ProposalView, VariantView | None], None] = lambda proposal, variant: None
    prompt_tokens: int = 12_000
    _begun_s: float = field(default_factory=time.monotonic)
    _unanswered: int = 0

    @property
    def client(self) -> Client:
        return self.service()

    def run(self) -> End:
        """Request variants from the model until a limit is reached. Return the name of the limit.

        Raises:
            EvoError: the service is unavailable, or refuses the caller.
        """
        self._finish_earlier()
        while (end := self._end()) is None:
            if (end := self._idea()) is not None:
                return end
        return end

    def _finish_earlier(self) -> None:
        """Submit answers that an earlier run received but did not submit, and wait for the variants of earlier runs.

        If an earlier run's request has no answer and is older than `Chat.longest_s`, it is marked as abandoned. Its
        maximum cost still counts for `Limits.usd`, but the request no longer counts for `Limits.proposals`.
        """
        now = datetime.now(UTC)
        tuned = {each.number: each for each in self.client.variants(self.search_id) if not each.ended}
        for proposal in self.client.proposals(self.search_id):
            if proposal.state == "asked" and _age_s(proposal, now) > self.chat.longest_s:
                self._note(proposal.number, answer="", usd=proposal.usd, error=ABANDONED)
            if proposal.answer and proposal.error is None and proposal.variant is None:
                self._try(proposal, proposal.answer, self._parents(proposal))
            if proposal.variant in tuned:
                self.report(proposal, self.wait(tuned[proposal.variant]))

    @property
    def _until_s(self) -> float:
        """Time of `time.monotonic` at which this run ends."""
        return math.inf if self.limits.minutes is None else self._begun_s + 60 * self.limits.minutes

    def _end(self) -> End | None:
        limits = self.limits
        proposals = [each for each in self.client.proposals(self.search_id) if each.state not in UNCOUNTED]
        if self._unanswered >= MODEL_FAILURES:
            return "model"
        if limits.proposals is not None and len(proposals) >= limits.proposals:
            return "proposals"
        if time.monotonic() >= self._until_s:
            return "minutes"
        shares = [each.share for each in self.client.variants(self.search_id) if each.share is not None]
        if limits.share is not None and max(shares, default=0.0) >= limits.share:
            return "share"
        return None

    def _idea(self) -> End | None:
        """Request one idea, and repairs if its variant fails. Return the limit that was reached, or None."""
        proposals, variants = self.client.proposals(self.search_id), self.client.variants(self.search_id)
        ideas = ideas_in(proposals)
        operator = operator_of(ideas, variants)
        parents = parents_of(operator, variants, ideas)
        messages = idea_messages(
            self.client.variant_brief(self.search_id),
            operator,
            parents=parents,
            information=self.information,
            insights=self._insights(proposals, variants),
            most_tokens=self.prompt_tokens,
        )
        asked, first, prompt = str(operator), None, messages
        for _ in range(1 + self.limits.repairs):
            if (end := self._end() or self._over_budget(messages)) is not None:
                return end
            proposal, answer = self._ask(asked, messages, repairs=first)
            if answer is None:
                return None
            failure = self._try(proposal, answer.text, parents, ended=answer.ended)
            if failure is None:
                return None
            first, asked = first or proposal.number, REPAIR
            repeated = answer.text[:MOST_REPEATED] or "(empty)"
            messages = [*prompt, Message(role="assistant", text=repeated), repair_message(failure)]
        return None

    def _insights(self, proposals: Sequence[ProposalView], variants: Sequence[VariantView]) -> list[str]:
        """Return the insights of this and earlier searches that measurements support, as text with the measurements."""
        own = Log(search_id=self.search_id, proposals=proposals, variants=variants)
        return [str(each) for each in insights([own, *self._earlier])[:MOST_INSIGHTS]]

    @cached_property
    def _earlier(self) -> tuple[Log, ...]:
        """Earlier searches of the family on this device model, latest first."""
        mine = self.client.search(self.search_id)
        page = self.client.searches(
            family=mine.family, device=mine.device.model, archived="any", limit=EARLIER_SEARCHES
        )
        return tuple(
            Log(
                search_id=search.id,
                place=f"search {search.id}, {search.subject}",
                proposals=self.client.proposals(search.id),
                variants=self.client.variants(search.id),
            )
            for search in page.items
            if search.id < self.search_id
        )

    def _over_budget(self, messages: Sequence[Message]) -> End | None:
        if self.limits.usd is None:
            return None
        spent = sum(each.usd for each in self.client.proposals(self.search_id))
        return "usd" if spent + self.chat.most_cost(messages, self.prices) > self.limits.usd else None

    def _ask(
        self, operator: str, messages: Sequence[Message], *, repairs: int | None
    ) -> tuple[ProposalView, Answer | None]:
        """Record a request with its maximum cost, send it to the model, and record the answer.

        If the service refuses the schema of answers, this is recorded too, and the request is sent again without it.

        Returns:
            The recorded proposal, and the model's answer; None in place of the answer if the request failed.
        """
        most_usd = self.chat.most_cost(messages, self.prices)
        proposal = self.client.add_proposal(
            self.search_id,
            operator=operator,
            information=self.information,
            model=self.chat.model,
            prompt=json.dumps([vars(each) for each in messages], ensure_ascii=False),
            usd=most_usd,
            repairs=repairs,
        )
        try:
            answer = self.chat.ask(messages, until_s=self._until_s)
        except SchemaRefused as error:
            self.report(self._note(proposal.number, answer=str(error), usd=0.0, error=NO_SCHEMA), None)
            return self._ask(operator, messages, repairs=repairs)
        except ModelFailed as error:
            self._unanswered += 1
            usd = most_usd if error.charged else 0.0
            failed = self._note(proposal.number, answer="", usd=usd, error=str(error))
            self.report(failed, None)
            return failed, None
        self._unanswered = 0
        counted = answer.tokens_in is not None and answer.tokens_out is not None
        usd = self.prices.of(answer.tokens_in or 0, answer.tokens_out or 0) if counted else most_usd
        known = self._note(
            proposal.number,
            answer=answer.text,
            tokens_in=answer.tokens_in or 0,
            tokens_out=answer.tokens_out or 0,
            usd=usd,
            error=None if answer.text else "the answer is empty",
        )
        return known, answer

    def _try(self, proposal: ProposalView, text: str, parents: Sequence[int], *, ended: str = "") -> str | None:
        """Submit an answer's variant and wait for its trials. Return the reason if the variant fails, else None."""
        try:
            idea = _read(text, ended)
            if idea.insight:  # stored first, because the program may be killed after it has submitted the variant
                proposal = self._note_of(proposal, text, insight=idea.insight)
            view = self._submitted(proposal, idea, parents)
        except (InvalidInput, Conflict) as error:
            self.report(self._note_of(proposal, text, error=str(error)), None)
            return str(error)
        view = self.wait(view)
        self.report(proposal, view)
        return failure_of(view)

    def _submitted(self, proposal: ProposalView, idea: Idea, parents: Sequence[int]) -> VariantView:
        taken = {each.name for each in self.client.variants(self.search_id)}
        name = idea.name if idea.name and idea.name not in taken else f"{idea.name or 'variant'}-p{proposal.number}"
        document = idea.document(self.chat.model) | {"name": name}
        return self.client.submit_variant(
            self.search_id,
            idea.files,
            document=document,
            parents=parents,
            trials=self.limits.trials,
            proposal=proposal.number,
        )

    def _note_of(
        self, proposal: ProposalView, text: str, *, error: str | None = None, insight: str = ""
    ) -> ProposalView:
        return self._note(
            proposal.number,
            answer=text,
            tokens_in=proposal.tokens_in or 0,
            tokens_out=proposal.tokens_out or 0,
            usd=proposal.usd,
            error=None if error is None else error[:2000],
            insight=insight,
        )

    def _note(self, number: int, **answer: object) -> ProposalView:
        return self.client.answer_proposal(self.search_id, number, **answer)

    def _parents(self, proposal: ProposalView) -> tuple[int, ...]:
        """Return the parents of an earlier run's proposal. They are not stored, so they are computed again."""
        earlier = [each for each in self.client.proposals(self.search_id) if each.number < proposal.number]
        if proposal.repairs is not None:
            earlier = [each for each in earlier if each.number < proposal.repairs]
        made_from = {each.variant for each in earlier}
        known = [each for each in self.client.variants(self.search_id) if each.number == 0 or each.number in made_from]
        ideas = ideas_in(earlier)
        return parents_of(operator_of(ideas, known), known, ideas)


def _read(text: str, ended: str) -> Idea:
    """Return the idea in an answer. The error for a cut-off or empty answer states why the model stopped."""
    try:
        return read_idea(text)
    except InvalidInput:
        if ended in LENGTH:
            remedy = "write a shorter answer, or raise --answer-tokens"
            raise InvalidInput("answer", f"was cut off at the maximum number of tokens; {remedy}") from None
        if not text:
            reason = f" (the model's service ended it with `{ended}`)" if ended else ""
            raise InvalidInput("answer", f"is empty{reason}; answer with one object of the given shape") from None
        raise


def _age_s(proposal: ProposalView, now: datetime) -> float:
    """Return the age of a request in seconds, by the service's clock or, if unknown, by this machine's clock."""
    return (now - proposal.asked_at).total_seconds() if proposal.asked_s is None else proposal.asked_s
