"""List of searches, which is the first page of the service."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlencode

from fastapi import Depends, Query, Request
from fastapi.responses import HTMLResponse
from pydantic import BeforeValidator

from api.auth.permission import allow
from api.dependencies import Service, ServiceDep
from api.http.paging import SORTED, page_of, parse_cursor
from api.http.routing import page_router
from api.web.pages.search.board import boards_of
from api.web.rendering import render
from db.queries import listing
from db.queries.listing import SEARCH_ORDERS, SearchFilter, SearchOrder
from db.repositories.archive import Archive
from evo.messages.view.runs import note_of_rivals
from evo.search.lifecycle import State

router = page_router()

LISTED = 50
Words = Annotated[str, Query(max_length=200)]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Filters of the list, named as in the REST API. Empty filters match everything.

    `cursor` is the cursor of the page; None for the first page.
    """

    state: State | None
    family: str
    text: str
    archived: Literal["false", "true", "any"]
    sort: SearchOrder
    cursor: str | None

    @property
    def given(self) -> dict[str, str]:
        """Query parameters that differ from their defaults, without the cursor."""
        usual = {"state": None, "family": "", "text": "", "archived": "false", "sort": "newest"}
        return {name: value for name in usual if (value := getattr(self, name)) != usual[name]}

    def query(self, cursor: str | None = None) -> str:
        """Return the query string with its question mark. Without a cursor, it leads to the first page."""
        parameters = self.given | ({} if cursor is None else {"cursor": cursor})
        return f"?{urlencode(parameters)}" if parameters else ""

    @property
    def filter(self) -> SearchFilter:
        return SearchFilter(
            state=self.state,
            family=self.family or None,
            text=self.text or None,
            archived=None if self.archived == "any" else self.archived == "true",
        )


def _filters(
    *,
    state: Annotated[State | None, BeforeValidator(lambda typed: typed or None)] = None,
    family: Words = "",
    text: Words = "",
    archived: Literal["false", "true", "any"] = "false",
    sort: SearchOrder = "newest",
    cursor: Annotated[str | None, Query(max_length=500)] = None,
) -> Wanted:
    return Wanted(state=state, family=family, text=text, archived=archived, sort=sort, cursor=cursor)


WantedDep = Annotated[Wanted, Depends(_filters)]


@router.get("/")
@allow("viewer")
def searches_page(wanted: WantedDep, request: Request, service: ServiceDep) -> HTMLResponse:
    return render(request, "searches/searches.html", **_searches(service, wanted))


@router.get("/live")
@allow("viewer")
def searches_fragment(wanted: WantedDep, request: Request, service: ServiceDep) -> HTMLResponse:
    return render(request, "searches/_searches.html", **_searches(service, wanted))


def _searches(service: Service, wanted: Wanted) -> dict[str, Any]:
    after = parse_cursor(wanted.cursor, SORTED[wanted.sort])
    with service.database.read() as session:
        found = listing.list_searches(session, wanted.filter, wanted.sort, after=after, limit=LISTED + 1)
        rows, following = page_of(found, LISTED, SEARCH_ORDERS[wanted.sort].sort_key)
        boards = boards_of(session, rows, service.conductor.clock())
        families = sorted({row.name for row in Archive(session).families()})
    timed = [board.search for board in boards if board.search.best is not None and not board.search.estimated]
    contests = [(each.family, each.problem_key, each.device.model, each.objective.key) for each in timed]
    return {
        "boards": boards,
        "note": note_of_rivals(contests),
        "wanted": wanted,
        "families": families,
        "states": get_args(State),
        "next_page": None if following is None else f"/{wanted.query(following)}",
    }
