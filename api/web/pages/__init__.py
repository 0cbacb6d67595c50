"""Web pages, one folder each: routes (`page.py`), view and templates. Scripts only update them."""

from collections.abc import Sequence

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.routing import BaseRoute, Mount

from api.auth.csrf import FIELD
from api.auth.form_values import typed_of
from api.web.pages.champions import page as champions_page
from api.web.pages.compare import page as compare_page
from api.web.pages.contest import page as contest_page
from api.web.pages.error.page import apology
from api.web.pages.evidence import page as evidence_page
from api.web.pages.families import page as families_page
from api.web.pages.plots import page as plots_page
from api.web.pages.plots.gallery import Gallery
from api.web.pages.search import page as search_page
from api.web.pages.searches import page as searches_page
from api.web.pages.sign_in import page as sign_in_page
from api.web.pages.start import page as start_page
from api.web.pages.start.kept import CHOSEN, cut_address_of
from api.web.pages.trial import page as trial_page
from api.web.pages.variants import page as variants_page
from api.web.pages.workers import page as workers_page
from api.web.rendering import HERE, render
from api.web.static_files import Files

PAGES = (
    searches_page,
    start_page,
    search_page,
    plots_page,
    trial_page,
    compare_page,
    champions_page,
    contest_page,
    evidence_page,
    workers_page,
    families_page,
    variants_page,
    sign_in_page,
)
"""Modules with a `router`. A new page is added here."""


def routes() -> list[BaseRoute]:
    """Return the routes of the pages and their static files."""
    static = Mount("/static", Files(directory=HERE / "static"), name="static")
    return [*(route for page in PAGES for route in page.router.routes), static]


def install(app: FastAPI) -> None:
    """Set up what the pages keep in the application's state."""
    app.state.error_page = error_page
    app.state.gallery = Gallery()


def _again(request: Request) -> str | None:
    """Return the address of the refused form with the user's input; None for other pages."""
    typed = {name: text for name, text in typed_of(request).items() if name not in (FIELD, CHOSEN)}
    return cut_address_of(typed) if typed and (request.method, request.url.path) == ("POST", "/start") else None


def error_page(request: Request, status: int, detail: str, roles: Sequence[str] = ()) -> HTMLResponse:
    """Return the error page for a link or a button."""
    said = apology(status, request.url.path, detail, roles, again=_again(request))
    return render(request, "error/error.html", status=status, apology=said, code=status)
