"""Web pages, one module each, rendered on the server. Scripts only update them."""

from collections.abc import Sequence

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.routing import BaseRoute, Mount

from api.auth.csrf import FIELD
from api.auth.form_values import typed_of
from api.web.error_page import apology
from api.web.pages import (
    champions,
    compare,
    contest,
    evidence,
    families,
    plots,
    search,
    searches,
    sign_in,
    start,
    trial,
    workers,
)
from api.web.plots.gallery import Gallery
from api.web.rendering import HERE, render
from api.web.start.kept import CHOSEN, cut_address_of
from api.web.static_files import Files

PAGES = (searches, start, search, plots, trial, compare, champions, contest, evidence, workers, families, sign_in)
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
    return render(request, "error.html", status=status, apology=said, code=status)
