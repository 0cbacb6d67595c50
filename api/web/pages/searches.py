"""Every search: the page people begin with."""

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from api.access.rule import allow
from api.deps import ServiceDep
from api.web.board import list_searches
from api.web.rendering import render

router = APIRouter()


@router.get("/")
@allow("viewer")
def searches_page(request: Request, service: ServiceDep) -> HTMLResponse:
    return _searches(request, service, "searches.html")


@router.get("/live")
@allow("viewer")
def searches_fragment(request: Request, service: ServiceDep) -> HTMLResponse:
    return _searches(request, service, "_searches.html")


def _searches(request: Request, service: ServiceDep, template: str) -> HTMLResponse:
    with service.database.read() as session:
        boards = list_searches(session, service.conductor.clock())
    return render(request, template, boards=boards)
