"""The pages: a list of searches, and a live leaderboard for each. Rendered here; a few lines of script refresh them."""

from functools import cache
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.staticfiles import StaticFiles

from api.deps import ServiceDep
from api.schemas import Id
from api.web.board import board_of, list_searches
from evo import wording

HERE = Path(__file__).parent
SECURITY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Nothing from elsewhere, nothing inline: what a kernel's author writes can never run in a reader's browser."""

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)


def install(app: FastAPI) -> None:
    """Add the pages and what they load."""
    app.include_router(router)
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
    app.state.error_page = error_page


@router.get("/")
def searches_page(service: ServiceDep) -> HTMLResponse:
    return _searches(service, "searches.html")


@router.get("/live")
def searches_fragment(service: ServiceDep) -> HTMLResponse:
    return _searches(service, "_searches.html")


@router.get("/searches/{search_id}")
def search_page(search_id: Id, service: ServiceDep) -> HTMLResponse:
    return _search(service, search_id, "search.html")


@router.get("/searches/{search_id}/live")
def search_fragment(search_id: Id, service: ServiceDep) -> HTMLResponse:
    return _search(service, search_id, "_search.html")


def error_page(request: Request, status: int, detail: str) -> HTMLResponse:
    """An error as a person sees it who followed a link."""
    return _page("error.html", status=status, detail=detail, code=status)


def _searches(service: ServiceDep, template: str) -> HTMLResponse:
    with service.database.read() as session:
        boards = list_searches(session, service.conductor.clock())
    return _page(template, boards=boards)


def _search(service: ServiceDep, search_id: int, template: str) -> HTMLResponse:
    with service.database.read() as session:
        board = board_of(session, search_id, service.conductor.clock())
    return _page(template, board=board, search=board.search)


def _page(template: str, *, code: int = 200, **content: Any) -> HTMLResponse:
    return HTMLResponse(_environment().get_template(template).render(content), code, headers=SECURITY)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        time=wording.time_text,
        duration=wording.duration_text,
        factor=wording.factor_text,
        percent=wording.percent_text,
        figure=wording.significant,
        settings=wording.settings_text,
        value=wording.value_text,
        outcome=wording.outcome_text,
    )
    return environment
