"""The pages: one module each, all on this service, all rendered here. Scripts only keep them up to date."""

from collections.abc import Sequence

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.routing import BaseRoute, Mount

from api.auth.csrf import FIELD
from api.auth.form_values import typed_of
from api.web.apology import apology
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
"""Every page has a module here with a `router`; a new one joins this list."""


def routes() -> list[BaseRoute]:
    """The pages and what they load."""
    static = Mount("/static", Files(directory=HERE / "static"), name="static")
    return [*(route for page in PAGES for route in page.router.routes), static]


def install(app: FastAPI) -> None:
    """Give an application what its pages keep."""
    app.state.error_page = error_page
    app.state.gallery = Gallery()


def _again(request: Request) -> str | None:
    """The form as it was filled in when its sending was refused; other pages hold too little to be lost."""
    typed = {name: text for name, text in typed_of(request).items() if name not in (FIELD, CHOSEN)}
    return cut_address_of(typed) if typed and (request.method, request.url.path) == ("POST", "/start") else None


def error_page(request: Request, status: int, detail: str, roles: Sequence[str] = ()) -> HTMLResponse:
    """An error as a person sees it who followed a link or pressed a button."""
    said = apology(status, request.url.path, detail, roles, again=_again(request))
    return render(request, "error.html", status=status, apology=said, code=status)
