"""Proposals of language models: stored before the model is asked, and completed with its answer."""

from typing import Annotated

from pydantic import Field

from api.auth.permission import allow
from api.dependencies import ServiceDep
from api.http.paging import Ordinal
from api.http.routing import rest_router
from api.schemas import Body, Id, Name
from api.views import proposal_view
from db.models import ProposalRow
from db.repositories.archive import Archive
from db.repositories.variants import Proposals
from evo.messages.view import ProposalView

router = rest_router("/searches/{search_id}/proposals", tag="variants")

MAX_TEXT = 1_000_000
LongText = Annotated[str, Field(max_length=MAX_TEXT)]
Usd = Annotated[float, Field(ge=0, le=1e6)]
Tokens = Annotated[int, Field(ge=0, le=1_000_000_000)]


class ProposalBody(Body):
    """A request about to be sent to a model; `usd` is the most that it can cost."""

    operator: Name
    information: Name
    model: Name
    prompt: LongText
    usd: Usd = 0.0
    repairs: Id | None = None


class AnswerBody(Body):
    """A model's answer. Without `answer`, the request failed: `error` says why, and `usd` what it cost all the same."""

    answer: LongText = ""
    tokens_in: Tokens = 0
    tokens_out: Tokens = 0
    usd: Usd = 0.0
    insight: str = Field(default="", max_length=4000)
    error: str | None = Field(default=None, max_length=20_000)


@router.post("", status_code=201)
@allow("author")
def add_proposal(search_id: Id, body: ProposalBody, service: ServiceDep) -> ProposalView:
    """Store a request before it is sent to a model, with the most that it can cost."""
    now = service.conductor.clock()
    with service.database.write() as session:
        Archive(session).search(search_id)
        row = ProposalRow(search_id=search_id, asked_at=now, **body.model_dump())
        return proposal_view(Proposals(session).add(row))


@router.put("/{number}/answer")
@allow("author")
def answer_proposal(search_id: Id, number: Ordinal, body: AnswerBody, service: ServiceDep) -> ProposalView:
    """Store the model's answer, what it cost, and why no variant came of it if that is known."""
    now = service.conductor.clock()
    with service.database.write() as session:
        row = Proposals(session).numbered(search_id, number)
        given = body.model_dump(include={"answer", "tokens_in", "tokens_out", "usd"})
        Proposals(session).answer(row, **given, now=now)
        row.insight, row.error = body.insight, body.error
        return proposal_view(row)


@router.get("")
@allow("viewer")
def list_proposals(search_id: Id, service: ServiceDep) -> tuple[ProposalView, ...]:
    """Return every proposal of a search, with prompts, answers, tokens and costs."""
    with service.database.read() as session:
        Archive(session).search(search_id)
        return tuple(map(proposal_view, Proposals(session).of(search_id)))
