"""REST routes that list, roll back and restore champions, and start ablations of a search's champion."""

from typing import Annotated

from fastapi import Query, Response
from pydantic import BaseModel, ConfigDict, Field

from api.auth.caller import caller
from api.auth.permission import allow
from api.dependencies import ServiceDep
from api.http.etag import IfMatch, champion_tag, require
from api.http.paging import SORTED, PageQuery, page_of, parse_cursor
from api.http.routing import rest_router
from api.schemas import Called, Id, Restore, Rollback
from api.views import ablation_views, champion_view, search_view
from db.queries import listing
from db.queries.listing import CHAMPION_ORDERS, ChampionFilter, ChampionOrder
from db.repositories.archive import Archive
from db.repositories.champions import Champions
from evo.messages.view import AblationView, ChampionView, Page, SearchView
from evo.messages.view.champion import CalledTime
from evo.text.assignments import split_assignments

router = rest_router("/champions", tag="champions")


class ChampionQuery(PageQuery):
    """Filters of champions. By default, only current champions are listed."""

    family: str | None = None
    problem: str = Field(default="", description="values of problem fields that a champion must have, e.g. `B=1,H=8`")
    device: str | None = Field(default=None, description="a device model")
    history: bool = Field(default=False, description="also list champions that were replaced or rolled back")
    sort: ChampionOrder = "newest"


@router.get("")
@allow("viewer")
def list_champions(query: Annotated[ChampionQuery, Query()], service: ServiceDep) -> Page[ChampionView]:
    """Return champions, newest first by default."""
    wanted = ChampionFilter(
        family=query.family,
        problem=split_assignments(query.problem, "problem"),
        device=query.device,
        current_only=not query.history,
    )
    with service.database.read() as session:
        after = parse_cursor(query.cursor, SORTED[query.sort])
        found = listing.list_champions(session, wanted, query.sort, after=after, limit=query.limit + 1)
    rows, following = page_of(found, query.limit, CHAMPION_ORDERS[query.sort].sort_key)
    return Page(items=tuple(map(champion_view, rows)), next=following)


@router.get("/{champion_id}")
@allow("viewer")
def get_champion(champion_id: Id, service: ServiceDep, response: Response) -> ChampionView:
    """Return one champion with its evidence. The `ETag` changes when the champion becomes current or is retired."""
    with service.database.read() as session:
        row = Champions(session).champion(champion_id)
    response.headers["etag"] = champion_tag(row)
    return champion_view(row)


@router.post("/{champion_id}/rollback")
@allow("submitter")
def roll_back_champion(champion_id: Id, body: Rollback, service: ServiceDep, if_match: IfMatch = None) -> ChampionView:
    """Retire the current champion and reinstate its predecessor, if there is one. Return the retired champion."""
    with service.database.write() as session:
        champions = Champions(session)
        require(if_match, champion_tag(champions.champion(champion_id)))
        champions.roll_back(champion_id, reason=body.reason, by=caller().name, now=service.conductor.clock())
        return champion_view(champions.champion(champion_id))


@router.post("/{champion_id}/promote")
@allow("submitter")
def promote_champion(champion_id: Id, body: Restore, service: ServiceDep, if_match: IfMatch = None) -> ChampionView:
    """Make a former champion current again, with its old evidence, in place of the champion `over`."""
    with service.database.write() as session:
        champions = Champions(session)
        require(if_match, champion_tag(champions.champion(champion_id)))
        why, now = body.reason, service.conductor.clock()
        row = champions.restore(champion_id, over=body.over, reason=why, by=caller().name, now=now)
        return champion_view(row)


@router.put("/{champion_id}/called")
@allow("submitter")
def store_called_times(champion_id: Id, body: Called, service: ServiceDep) -> ChampionView:
    """Store how long a PyTorch program takes to call a champion's exported kernel, and to call PyTorch's own function.

    The exported package measures both times with ``python -m PACKAGE``.
    """
    times = CalledTime(**body.model_dump(), at=service.conductor.clock(), by=caller().name)
    with service.database.write() as session:
        return champion_view(Champions(session).store_called(champion_id, times))


ablation_router = rest_router("/searches/{search_id}/ablation", tag="searches")


class AblationRequest(BaseModel):
    """Request for an ablation, which states the tunables of the champion to change."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    values: bool = Field(
        default=False, description="also measure the neighbouring values of tunables that are not switches"
    )


@ablation_router.post("", status_code=202)
@allow("submitter")
def start_ablation(search_id: Id, body: AblationRequest, service: ServiceDep) -> SearchView:
    """Measure the effect of each switch of a finished search's champion.

    A switch is a tunable with booleans or strings as values, or with only two values. With `values`, the other tunables
    are also changed. If an ablation of the search is already running, this request has no effect.

    The state of the search is `ablating` until all effects are measured, and then `finished` again. An ablation
    promotes no trial.
    """
    service.conductor.orders.ablate(search_id, values=body.values)
    with service.database.read() as session:
        return search_view(session, search_id, service.conductor.clock())


@ablation_router.get("")
@allow("viewer")
def get_ablation(search_id: Id, service: ServiceDep) -> tuple[AblationView, ...]:
    """Return the changed values that ablations of the search's champions measure, with the effects known so far.

    If a change was measured several times, only the latest result is returned.
    """
    with service.database.read() as session:
        Archive(session).search(search_id)
        return ablation_views(session, search_id)
