"""Evolution of variants by a language model: requests, submits and repairs variants until a limit is reached."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from evo.client import Client
from evo.errors import Conflict, InvalidInput
from evo.messages.view import ProposalView, VariantView
from evo.messages.view.variant import ABANDONED, NO_SCHEMA
from evo.variants.evolve.answer import REMEDY, Idea, read_idea
from evo.variants.evolve.chat import Chat
from evo.variants.evolve.insights import Log, insights
from evo.variants.evolve.ledger import Ledger
from evo.variants.evolve.limits import End, Limits
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

EARLIER_SEARCHES = 20
"""Maximum number of earlier searches of the family on the same device model whose insights are used."""

MOST_INSIGHTS = 8
MOST_REPEATED = 100_000
"""Maximum number of characters of a failed answer that the request to repair it repeats."""

MODEL_FAILURES = 3
"""Maximum number of consecutive requests without an answer before the run ends."""


@dataclass(kw_only=True)
class Evolution:
    """One run of the evolution of a search's variants. A later run can continue, because the service stores all state.

    Attributes:
        service: returns the current client. It is called for each request, because the service's address may change
            when it restarts.
        information: what requests contain; see `evo.variants.evolve.operators.idea_messages`.
        wait: function that waits until all trials of a variant have ended, and returns the variant's new state.
        report: function that is called with a recorded proposal and its variant. With a variant, it is called when all
            trials of the variant have ended. With None as the variant, it is called when the request failed or its
            answer contained no valid variant.
        prompt_tokens: approximate maximum length of the brief in a request, in tokens.
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

    @cached_property
    def _ledger(self) -> Ledger:
        return Ledger(service=self.service, search_id=self.search_id)

    def run(self) -> End:
        """Request variants until a limit is reached or the model no longer answers. Return the reason for the end.

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
        tuned = {each.number: each for each in self._ledger.variants if not each.ended}
        for proposal in self._ledger.proposals:
            if proposal.state == "asked" and _age_s(proposal, now) > self.chat.longest_s:
                self._ledger.note(proposal.number, answer="", usd=proposal.usd, error=ABANDONED)
            if proposal.answer and proposal.error is None and proposal.variant is None:
                self._try(proposal, proposal.answer, self._ledger.parents(proposal))
            if proposal.variant in tuned:
                self.report(proposal, self.wait(tuned[proposal.variant]))

    @property
    def _until_s(self) -> float:
        """Time of `time.monotonic` at which this run ends."""
        return math.inf if self.limits.minutes is None else self._begun_s + 60 * self.limits.minutes

    def _end(self) -> End | None:
        if self._unanswered >= MODEL_FAILURES:
            return "model"
        return self.limits.reached(
            proposals=self._ledger.counted,
            elapsed_s=time.monotonic() - self._begun_s,
            shares=[each.share for each in self._ledger.variants if each.share is not None],
        )

    def _idea(self) -> End | None:
        """Request one idea, and repairs if its variant fails. Return the limit that was reached, or None."""
        proposals, variants = self._ledger.proposals, self._ledger.variants
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
        return "usd" if self._ledger.spent_usd + self.chat.most_cost(messages, self.prices) > self.limits.usd else None

    def _ask(
        self, operator: str, messages: Sequence[Message], *, repairs: int | None
    ) -> tuple[ProposalView, Answer | None]:
        """Record a request with its maximum cost, send it to the model, and record the answer.

        If the provider refuses the schema of answers, this is recorded too, and the request is sent again without it.

        Args:
            repairs: number of the failed proposal that the request repairs; None if it is not a repair.

        Returns:
            The recorded proposal, and the model's answer; None in place of the answer if the request failed.
        """
        most_usd = self.chat.most_cost(messages, self.prices)
        proposal = self._ledger.begin(
            operator,
            messages,
            model=self.chat.model,
            information=self.information,
            usd=most_usd,
            repairs=repairs,
        )
        try:
            answer = self.chat.ask(messages, until_s=self._until_s)
        except SchemaRefused as error:
            self.report(self._ledger.note(proposal.number, answer=str(error), usd=0.0, error=NO_SCHEMA), None)
            return self._ask(operator, messages, repairs=repairs)
        except ModelFailed as error:
            self._unanswered += 1
            usd = most_usd if error.charged else 0.0
            failed = self._ledger.note(proposal.number, answer="", usd=usd, error=str(error))
            self.report(failed, None)
            return failed, None
        self._unanswered = 0
        counted = answer.tokens_in is not None and answer.tokens_out is not None
        usd = self.prices.of(answer.tokens_in or 0, answer.tokens_out or 0) if counted else most_usd
        known = self._ledger.note(
            proposal.number,
            answer=answer.text,
            tokens_in=answer.tokens_in or 0,
            tokens_out=answer.tokens_out or 0,
            usd=usd,
            error=None if answer.text else "the answer is empty",
        )
        return known, answer

    def _try(self, proposal: ProposalView, text: str, parents: Sequence[int], *, ended: str = "") -> str | None:
        """Submit an answer's variant and wait for its trials. Return the reason if the variant fails, else None.

        Args:
            text: answer of the model.
            ended: reason why the model stopped, as named by the provider; empty if unknown.
        """
        try:
            idea = _read(text, ended)
            if idea.insight:  # stored first, because the program may be killed after it has submitted the variant
                proposal = self._ledger.annotate(proposal, text, insight=idea.insight)
            view = self._submitted(proposal, idea, parents)
        except (InvalidInput, Conflict) as error:
            self.report(self._ledger.annotate(proposal, text, error=str(error)), None)
            return str(error)
        view = self.wait(view)
        self.report(proposal, view)
        return failure_of(view)

    def _submitted(self, proposal: ProposalView, idea: Idea, parents: Sequence[int]) -> VariantView:
        taken = {each.name for each in self._ledger.variants}
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


def _read(text: str, ended: str) -> Idea:
    """Return the idea in an answer. The error for a cut-off or empty answer states why the model stopped."""
    try:
        return read_idea(text)
    except InvalidInput:
        if ended in LENGTH:
            remedy = "write a shorter answer, or raise --answer-tokens"
            raise InvalidInput("answer", f"was cut off at the maximum number of tokens; {remedy}") from None
        if not text:
            reason = f" (the provider ended it with `{ended}`)" if ended else ""
            raise InvalidInput("answer", f"is empty{reason}; {REMEDY}") from None
        raise


def _age_s(proposal: ProposalView, now: datetime) -> float:
    """Return the seconds since a request to the model, by the service's clock or, if unknown, by this machine's."""
    return (now - proposal.asked_at).total_seconds() if proposal.asked_s is None else proposal.asked_s
