"""The pages: one module each, all on this service, all rendered here. Scripts only keep them up to date."""

from collections.abc import Mapping
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

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
from api.web.parameters import known_parameters
from api.web.plots.gallery import Gallery
from api.web.rendering import HERE, render

PAGES = (searches, start, search, plots, trial, compare, champions, contest, evidence, workers, families, sign_in)
"""Every page has a module here with a `router`; a new one joins this list."""
AS_PAGES: Mapping[str, Any] = {
    "dependencies": [Depends(known_parameters)],
    "include_in_schema": False,
    "default_response_class": HTMLResponse,
}


def install(app: FastAPI) -> None:
    """Add the pages and what they load."""
    for page in PAGES:
        app.include_router(page.router, **AS_PAGES)
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
    app.state.error_page = error_page
    app.state.gallery = Gallery()


def error_page(request: Request, status: int, detail: str) -> HTMLResponse:
    """An error as a person sees it who followed a link."""
    return render(request, "error.html", status=status, detail=detail, code=status)
