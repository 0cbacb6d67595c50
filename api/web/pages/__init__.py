"""Web pages, one folder each: routes (`page.py`), view and templates. Scripts only update them.

The router of every `page.py` is served.
"""

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.routing import BaseRoute, Mount

from api.auth.csrf import FIELD
from api.auth.form_values import typed_of
from api.http.errors import Refusal
from api.web.pages.error.page import error_content
from api.web.pages.plots.gallery import Gallery
from api.web.pages.start.kept import CHOSEN, cut_address_of
from api.web.rendering import HERE, render
from api.web.static_files import Files


def routes() -> list[BaseRoute]:
    """Return the routes of the pages and their static files."""
    static = Mount("/static", Files(directory=HERE / "static"), name="static")
    return [*(route for router in routers() for route in router.routes), static]


def routers() -> Iterator[APIRouter]:
    """Yield the router of each folder's `page` module; the folders `error` and `search_report` have none."""
    for folder in iter_modules(__path__, f"{__name__}."):
        if find_spec(f"{folder.name}.page") is not None:
            router = getattr(import_module(f"{folder.name}.page"), "router", None)
            if router is not None:
                yield router


def install(app: FastAPI) -> None:
    """Set up the pages' data in the application's state."""
    app.state.error_page = error_page
    app.state.gallery = Gallery()


def _again(request: Request) -> str | None:
    """Return the address of the refused form with the user's input; None for other pages."""
    typed = {name: text for name, text in typed_of(request).items() if name not in (FIELD, CHOSEN)}
    return cut_address_of(typed) if typed and (request.method, request.url.path) == ("POST", "/start") else None


def error_page(request: Request, refused: Refusal) -> HTMLResponse:
    """Return the error page for a link or a button."""
    content = error_content(refused, request.url.path, again=_again(request))
    return render(request, "error/error.html", status=refused.status, content=content, code=refused.status)
