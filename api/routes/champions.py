"""Champions and the way back from one."""

from typing import Annotated

from fastapi import Query, Request, Response
from pydantic import Field

from api.access.caller import caller
from api.access.rule import allow
from api.deps import ServiceDep
from api.etag import IfMatch, champion_tag, require
from api.paging import SORTED, PageQuery, page_of, place_of
from api.routing import rest_router
from api.schemas import Id, Restore, Rollback
from api.views import champion_view
from api.web.champion_report import champion_report
from api.web.evidence_sheet import evidence_sheet
from db import listing
from db.champions import Champions
from db.listing import CHAMPION_ORDERS, ChampionFilter, ChampionOrder
from evo.problem import split_assignments
from evo.view import ChampionView, Page

router = rest_router("/champions", tag="champions")


class ChampionQuery(PageQuery):
    """Which champions; by default the current ones."""

    family: str | None = None
    problem: str = Field(default="", description="fields that must be equal, e.g. `B=1,H=8`")
    device: str | None = Field(default=None, description="a device model")
    history: bool = Field(default=False, description="also those that were replaced or rolled back")
    sort: ChampionOrder = "newest"


@router.get("")
@allow("viewer")
def list_champions(query: Annotated[ChampionQuery, Query()], service: ServiceDep) -> Page[ChampionView]:
    """Champions, newest first unless sorted otherwise."""
    wanted = ChampionFilter(
        family=query.family,
        problem=split_assignments(query.problem, "problem"),
        device=query.device,
        current_only=not query.history,
    )
    with service.database.read() as session:
        after = place_of(query.cursor, SORTED[query.sort])
        found = listing.list_champions(session, wanted, query.sort, after=after, limit=query.limit + 1)
    rows, following = page_of(found, query.limit, CHAMPION_ORDERS[query.sort].place)
    return Page(items=tuple(map(champion_view, rows)), next=following)


@router.get("/{champion_id}")
@allow("viewer")
def get_champion(champion_id: Id, service: ServiceDep, response: Response) -> ChampionView:
    """One champion with its evidence. Its `ETag` says whether it is the current one."""
    with service.database.read() as session:
        row = Champions(session).champion(champion_id)
    response.headers["etag"] = champion_tag(row)
    return champion_view(row)


@router.get(
    "/{champion_id}/report.html",
    response_class=Response,
    responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}}},
)
@allow("viewer")
def get_champion_report(champion_id: Id, request: Request, service: ServiceDep) -> Response:
    """Its evidence as one page that needs nothing else, to keep or to send."""
    with service.database.read() as session:
        sheet = evidence_sheet(session, service.artefacts, champion_id, service.conductor.clock())
    headers = {
        "Content-Disposition": f'attachment; filename="champion-{champion_id}.html"',
        "X-Content-Type-Options": "nosniff",
    }
    return Response(champion_report(request, sheet), media_type="text/html; charset=utf-8", headers=headers)


@router.post("/{champion_id}/rollback")
@allow("submitter")
def roll_back_champion(champion_id: Id, body: Rollback, service: ServiceDep, if_match: IfMatch = None) -> ChampionView:
    """Retire the current champion; the one it replaced is current again. Returns the retired one."""
    with service.database.write() as session:
        champions = Champions(session)
        require(if_match, champion_tag(champions.champion(champion_id)))
        champions.roll_back(champion_id, reason=body.reason, by=caller().name, now=service.conductor.clock())
        return champion_view(champions.champion(champion_id))


@router.post("/{champion_id}/promote")
@allow("submitter")
def promote_champion(champion_id: Id, body: Restore, service: ServiceDep, if_match: IfMatch = None) -> ChampionView:
    """Make an earlier champion the current one again, on the evidence it has, in place of the one named `over`."""
    with service.database.write() as session:
        champions = Champions(session)
        require(if_match, champion_tag(champions.champion(champion_id)))
        why, now = body.reason, service.conductor.clock()
        row = champions.restore(champion_id, over=body.over, reason=why, by=caller().name, now=now)
        return champion_view(row)
