"""Web pages.

Each page has a folder with its routes (`page.py`), view and templates. Pages also work without scripts, which only
update them.

The service serves the router of every `page.py`.
"""

import os
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from api.auth.csrf import FIELD
from api.auth.form_values import typed_of
from api.http.errors import Refusal
from api.web.pages.error.page import error_content
from api.web.pages.plots.gallery import Gallery
from api.web.pages.start.terms import CHOSEN, cut_address_of
from api.web.rendering import HERE, render


def routes() -> list[BaseRoute]:
    """Return the routes of the pages and their static files."""
    static = Mount("/static", Files(directory=HERE / "static"), name="static")
    return [*(route for router in routers() for route in router.routes), static]


def routers() -> Iterator[APIRouter]:
    """Yield the router of the `page` module of each folder. The folders `error` and `search_report` have no router."""
    for folder in iter_modules(__path__, f"{__name__}."):
        if find_spec(f"{folder.name}.page") is not None:
            router = getattr(import_module(f"{folder.name}.page"), "router", None)
            if router is not None:
                yield router


def install(app: FastAPI) -> None:
    """Store the error page and the plot gallery in the state of the application."""
    app.state.error_page = error_page
    app.state.gallery = Gallery()


def _form_address(request: Request) -> str | None:
    """Return the URL of the form that starts a search, with the user's input, if the request sent it; else None."""
    typed = {name: text for name, text in typed_of(request).items() if name not in (FIELD, CHOSEN)}
    return cut_address_of(typed) if typed and (request.method, request.url.path) == ("POST", "/start") else None


def error_page(request: Request, refused: Refusal) -> HTMLResponse:
    """Return the error page for a request of a browser."""
    content = error_content(refused, request.url.path, again=_form_address(request))
    return render(request, "error/error.html", status=refused.status, content=content, code=refused.status)


WORKER_POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content security policy of shared workers. A shared worker may import scripts of the service and receive its
events."""


class Files(StaticFiles):
    """Static files with the headers that scripts need."""

    def file_response(
        self, full_path: "str | os.PathLike[str]", stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """Return a static file, or status 304 if the browser has the current version.

        A browser takes the content security policy of a shared worker from the response with its script. Therefore, all
        files are sent with this policy. Browsers must check every file for changes, because old scripts do not work
        together with new ones after an upgrade.
        """
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["Content-Security-Policy"] = WORKER_POLICY
        response.headers["Cache-Control"] = "no-cache"
        return response
