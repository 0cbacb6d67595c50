"""REST routes of variants, and of the proposals of language models."""

from typing import Annotated

from fastapi import HTTPException
from pydantic import Field
from sqlalchemy.orm import Session

from api.auth.caller import caller
from api.auth.permission import allow
from api.dependencies import Service, ServiceDep
from api.families import files_of
from api.http.paging import Ordinal
from api.http.routing import rest_router
from api.scheduler.variants import VariantDesk
from api.schemas import Body, Id, Name, VariantBody
from api.views import brief_view, proposal_view, variant_view, variant_views
from db.models import ProposalRow, SearchRow
from db.repositories.archive import Archive
from db.repositories.variants import Proposals, Variants
from evo.device.estimate.target import aimed_at
from evo.errors import Conflict, InvalidInput, NotFound
from evo.messages.view import BriefView, ProposalView, VariantSource, VariantView
from templates.variant import FOLDER, table_of

router = rest_router("/searches/{search_id}/variants", tag="variants")


@router.post("", status_code=201)
@allow("author")
def submit_variant(search_id: Id, body: VariantBody, service: ServiceDep) -> VariantView:
    """Submit another implementation of the family of a search.

    Workers verify, time and tune the variant like the original implementation. A variant cannot change the contract of
    the family, which consists of problem, arguments, cases, tolerances, baselines and reference.
    """
    if not service.settings.allow_variants:
        raise HTTPException(
            403, "this service does not accept variants; set KERNEL_EVO_ALLOW_VARIANTS=true for the service"
        )
    author = "" if caller().token_id is None else caller().name
    base_id, number = _desk(service).submit(search_id, body, author=author)
    with service.database.read() as session:
        return variant_view(session, base_id, number)


@router.get("")
@allow("viewer")
def list_variants(search_id: Id, service: ServiceDep) -> tuple[VariantView, ...]:
    """Return the variants of a search, the family's own implementation first."""
    with service.database.read() as session:
        return variant_views(session, base_of(session, search_id).id)


@router.get("/brief")
@allow("viewer")
def get_brief(search_id: Id, service: ServiceDep) -> BriefView:
    """Return the brief for proposers of variants: the contract, the device, and earlier attempts with their results."""
    with service.database.read() as session:
        base = base_of(session, search_id)
        family = service.conductor.catalogue.family(base.family)
        if base.device.runs == "recordings":
            raise InvalidInput("search_id", f"search {base.id} replays a recording, which has no source to change")
        model = _model_of(session, service, base)
        return brief_view(session, base, family, lambda number: source_of(session, service, base, number), model=model)


@router.get("/{number}")
@allow("viewer")
def get_variant(search_id: Id, number: Ordinal, service: ServiceDep) -> VariantView:
    """Return one variant with its progress and failures. Number 0 is the family's own implementation."""
    with service.database.read() as session:
        return variant_view(session, base_of(session, search_id).id, number)


@router.get("/{number}/source")
@allow("viewer")
def get_variant_source(search_id: Id, number: Ordinal, service: ServiceDep) -> VariantSource:
    """Return the source files of a variant, and its table ``[cpu]``, ``[cuda]`` or ``[triton]`` of family.toml."""
    with service.database.read() as session:
        return source_of(session, service, base_of(session, search_id), number)


def base_of(session: Session, search_id: int) -> SearchRow:
    """Return the search to which a variant was submitted if `search_id` tunes this variant, else the search itself."""
    return Archive(session).search(Variants(session).base_id(Archive(session).search(search_id).id))


def source_of(session: Session, service: Service, base: SearchRow, number: int) -> VariantSource:
    """Return the source of a variant. If the files were deleted, the result has no files."""
    row = Variants(session).numbered(base.id, number)
    family = base.family if row is None else Archive(session).search(row.tuning_id).family
    kind = aimed_at(base.device, base.objective).kind
    table = family.document.get(table_of(family.document, kind), {})
    try:
        files = _texts_of(files_of(session, service.artefacts, family), table)
    except (Conflict, NotFound):
        files = {}
    return VariantSource(number=number, kind=kind, table=table, files=files)


def _model_of(session: Session, service: Service, base: SearchRow) -> str:
    """Return the source of the PyTorch model from which a family was imported; empty if there is none."""
    from evo.family.importing.kernelbench.writing import (
        PROBLEM,
    )  # imported only here, because it loads the source parsers

    try:
        return _text(files_of(session, service.artefacts, base.family).get(PROBLEM, b""))
    except (Conflict, NotFound):
        return ""


def _desk(service: Service) -> VariantDesk:
    conductor = service.conductor
    return VariantDesk(
        database=service.database,
        artefacts=service.artefacts,
        catalogue=conductor.catalogue,
        clock=conductor.clock,
        connected_since=conductor.connected_since,
    )


def _texts_of(files: dict[str, bytes], table: dict[str, object]) -> dict[str, str]:
    """Return the source texts of an implementation by file name.

    For a variant, these are the files in its folder; for a family, the template and the files that the template
    includes.
    """
    main = str(table.get("template", table.get("source", "")))
    folder = f"{FOLDER}/"
    if main.startswith(folder):
        return {name.removeprefix(folder): _text(files[name]) for name in sorted(files) if name.startswith(folder)}
    text = _text(files.get(main, b""))
    included = [name for name in sorted(files) if f'"{name}"' in text or f"'{name}'" in text]
    return {name: _text(files[name]) for name in (main, *included) if name in files}


def _text(content: bytes) -> str:
    return content.decode("utf-8", errors="replace")


proposal_router = rest_router("/searches/{search_id}/proposals", tag="variants")

MAX_TEXT = 1_000_000
LongText = Annotated[str, Field(max_length=MAX_TEXT)]
Usd = Annotated[float, Field(ge=0, le=1e6)]
Tokens = Annotated[int, Field(ge=0, le=1_000_000_000)]


class ProposalBody(Body):
    """A request that will be sent to a language model. `usd` is its maximum cost in US dollars.

    `operator` is the kind of change that the model is asked to make. `information` states what the prompt shows: only
    the ``task``, also the earlier variants (``elites``), or also insights from them (``insights``). `repairs` is the
    number of the failed proposal that this request repairs; null if it is not a repair.
    """

    operator: Name
    information: Name
    model: Name
    prompt: LongText
    usd: Usd = 0.0
    repairs: Id | None = None


class AnswerBody(Body):
    """The answer of a language model. If there is none, `answer` is empty.

    `error` is the reason why there is no usable variant, or null. `insight` is what the model learned from earlier
    results.
    """

    answer: LongText = ""
    tokens_in: Tokens = 0
    tokens_out: Tokens = 0
    usd: Usd = 0.0
    insight: str = Field(default="", max_length=4000)
    error: str | None = Field(default=None, max_length=20_000)


@proposal_router.post("", status_code=201)
@allow("author")
def add_proposal(search_id: Id, body: ProposalBody, service: ServiceDep) -> ProposalView:
    """Store a request before it is sent to a language model, with its maximum cost."""
    now = service.conductor.clock()
    with service.database.write() as session:
        Archive(session).search(search_id)
        row = ProposalRow(search_id=search_id, asked_at=now, **body.model_dump())
        return proposal_view(Proposals(session).add(row), now)


@proposal_router.put("/{number}/answer")
@allow("author")
def answer_proposal(search_id: Id, number: Ordinal, body: AnswerBody, service: ServiceDep) -> ProposalView:
    """Store the model's answer, the cost of the request and, if the answer contains no variant, the reason."""
    now = service.conductor.clock()
    with service.database.write() as session:
        row = Proposals(session).numbered(search_id, number)
        answer = body.model_dump(include={"answer", "tokens_in", "tokens_out", "usd"})
        Proposals(session).answer(row, **answer, now=now)
        row.insight, row.error = body.insight, body.error
        return proposal_view(row, now)


@proposal_router.get("")
@allow("viewer")
def list_proposals(search_id: Id, service: ServiceDep) -> tuple[ProposalView, ...]:
    """Return all proposals of a search with prompts, answers, tokens and costs."""
    now = service.conductor.clock()
    with service.database.read() as session:
        Archive(session).search(search_id)
        return tuple(proposal_view(row, now) for row in Proposals(session).of_search(search_id))
