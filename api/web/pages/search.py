"""One search: how far it is, what won, and the leaderboard of its trials."""

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from api.access.rule import allow
from api.deps import ServiceDep
from api.schemas import Id
from api.web.board import board_of
from api.web.rendering import render

router = APIRouter(prefix="/searches")


@router.get("/{search_id}")
@allow("viewer")
def search_page(search_id: Id, request: Request, service: ServiceDep) -> HTMLResponse:
    return _search(request, service, search_id, "search.html")


@router.get("/{search_id}/live")
@allow("viewer")
def search_fragment(search_id: Id, request: Request, service: ServiceDep) -> HTMLResponse:
    return _search(request, service, search_id, "_search.html")


def _search(request: Request, service: ServiceDep, search_id: int, template: str) -> HTMLResponse:
    with service.database.read() as session:
        board = board_of(session, search_id, service.conductor.clock())
    return render(request, template, board=board, search=board.search)
