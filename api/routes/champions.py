"""Champions and the way back from one."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from api.access.rule import allow
from api.deps import ServiceDep
from api.paging import NUMBER, PageQuery, place_of, to_cursor
from api.schemas import Id, Rollback
from api.views import champion_view
from db.champions import Champions
from evo.problem import split_assignments
from evo.view import ChampionView, Page

router = APIRouter(prefix="/champions", tags=["champions"])


class ChampionQuery(PageQuery):
    """Which champions; by default the current ones."""

    family: str | None = None
    problem: str = Field(default="", description="fields that must be equal, e.g. `B=1,H=8`")
    device: str | None = Field(default=None, description="a device model")
    history: bool = Field(default=False, description="also those that were replaced or rolled back")


@router.get("")
@allow("viewer")
def list_champions(query: Annotated[ChampionQuery, Query()], service: ServiceDep) -> Page[ChampionView]:
    """Champions, newest first."""
    with service.database.read() as session:
        rows = Champions(session).champions(
            family=query.family,
            problem=split_assignments(query.problem, "problem"),
            device=query.device,
            current_only=not query.history,
            before=place_of(query.cursor, NUMBER),
            limit=query.limit + 1,
        )
    items = tuple(champion_view(row) for row in rows[: query.limit])
    return Page(items=items, next=to_cursor(items[-1].id) if len(rows) > query.limit else None)


@router.get("/{champion_id}")
@allow("viewer")
def get_champion(champion_id: Id, service: ServiceDep) -> ChampionView:
    """One champion with its evidence."""
    with service.database.read() as session:
        return champion_view(Champions(session).champion(champion_id))


@router.post("/{champion_id}/rollback")
@allow("submitter")
def roll_back_champion(champion_id: Id, body: Rollback, service: ServiceDep) -> ChampionView:
    """Retire the current champion; the one it replaced is current again. Returns the retired one."""
    with service.database.write() as session:
        champions = Champions(session)
        champions.roll_back(champion_id, reason=body.reason, now=service.conductor.clock())
        return champion_view(champions.champion(champion_id))
