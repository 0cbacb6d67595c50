"""Page of one search, with progress, best trials and leaderboard."""

from typing import Any, cast

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from sqlalchemy.orm import Session

from api.auth.permission import allow
from api.dependencies import Service, ServiceDep
from api.http.routing import page_router
from api.rest.selection import tunables_of
from api.schemas import Id
from api.views import search_view
from api.web.address import Address, AddressDep
from api.web.content.leaderboard import listing_of
from api.web.pages.search.board import Board, board_of
from api.web.rendering import render
from evo.messages.view import SearchView
from evo.search.lifecycle import TERMINAL, Command

router = page_router("/searches")


@router.get("/{search_id}")
@allow("viewer")
def search_page(search_id: Id, address: AddressDep, request: Request, service: ServiceDep) -> HTMLResponse:
    with service.database.read() as session:
        board = _board(session, service, search_id)
        content = _leaderboard(session, service, board.search, address)
    return render(request, "search/search.html", board=board, **content)


@router.get("/{search_id}/live")
@allow("viewer")
def search_fragment(search_id: Id, request: Request, service: ServiceDep) -> HTMLResponse:
    with service.database.read() as session:
        board = _board(session, service, search_id)
    return render(request, "search/_search.html", board=board, search=board.search)


@router.get("/{search_id}/leaderboard")
@allow("viewer")
def leaderboard_fragment(search_id: Id, address: AddressDep, request: Request, service: ServiceDep) -> HTMLResponse:
    with service.database.read() as session:
        search = search_view(session, search_id, service.conductor.clock())
        content = _leaderboard(session, service, search, address)
    return render(request, "_leaderboard.html", **content)


@router.get("/{search_id}/cancel")
@allow("submitter")
def cancel_page(search_id: Id, request: Request, service: ServiceDep) -> HTMLResponse:
    """Show a form in which the user confirms that the search should be cancelled."""
    with service.database.read() as session:
        search = search_view(session, search_id, service.conductor.clock())
    return render(request, "search/cancel.html", search=search, ended=search.state in TERMINAL)


@router.post("/{search_id}/pause")
@router.post("/{search_id}/resume")
@router.post("/{search_id}/stop")
@router.post("/{search_id}/cancel")
@allow("submitter")
def command_search(search_id: Id, request: Request, service: ServiceDep) -> Response:
    """Execute the command in the URL: pause, resume, stop or cancel.

    Each command has a separate route, because a path parameter would match every mistyped URL.
    """
    command = cast(Command, request.url.path.rpartition("/")[2])
    service.conductor.orders.command(search_id, command)
    return RedirectResponse(f"/searches/{search_id}", 303)


def _board(session: Session, service: Service, search_id: int) -> Board:
    return board_of(session, search_id, service.conductor.clock())


def _leaderboard(session: Session, service: Service, search: SearchView, address: Address) -> dict[str, Any]:
    tunables = tunables_of(session, service.conductor.catalogue, search.id)
    here = address.at(f"/searches/{search.id}")
    return {
        "search": search,
        "searches": (search.id,),
        "listing": listing_of(session, here, tunables, search=search),
        "rows_path": f"/searches/{search.id}/leaderboard",
        "files": {form: f"/api/v1/searches/{search.id}/trials.{form}" for form in ("csv", "json")},
        "counts": search.counts,
        "ended": search.finished,
        "live": search.state not in TERMINAL,
        "many": False,
    }
