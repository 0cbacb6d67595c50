"""Routers, and the settings that all routers share.

Each router gets the settings when it is created, because `include_router` creates the routes again.
"""

from collections.abc import Callable, Coroutine
from typing import Any, TypedDict

from fastapi import APIRouter, Depends, Request, params
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.responses import Response

from api.auth.permission import authorise
from api.http import errors
from api.http.query import known_parameters, known_to_route, refuse_repeated
from api.http.strict_json import StrictRequest
from api.operations.logs import bind_ids
from api.operations.metrics import note_route

PREFIX = "/api/v1"
BEARER = HTTPBearer(
    auto_error=False, description="An access token (`kernel-evo token create`). Not needed on loopback without tokens."
)
"""Documents the token in OpenAPI. `api.auth.admission` checks the token before any route runs."""


class StrictRoute(APIRoute):
    """Route that parses JSON request bodies strictly, e.g. refuses repeated names; see `api.http.strict_json`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handle(StrictRequest(request.scope, request.receive))

        return strictly


class _Common(TypedDict):
    dependencies: list[params.Depends]
    responses: dict[int | str, dict[str, Any]]
    generate_unique_id_function: Callable[[APIRoute], str]


async def enter(request: Request) -> None:
    """Check the access rights and the CSRF token of a request, and refuse repeated query parameters.

    Also store the ids in the path for the log lines, and the route for the metrics. All checks are in one dependency,
    because each dependency costs time per request.
    """
    bind_ids(request)
    note_route(request)
    await authorise(request)
    refuse_repeated(request)


def rest_router(prefix: str = "", *, tag: str) -> APIRouter:
    """Return a router of the REST API. Its routes refuse unknown query parameters."""
    common = _common()
    common["dependencies"].append(Depends(known_to_route))
    return APIRouter(prefix=PREFIX + prefix, tags=[tag], route_class=StrictRoute, **common)


def bare_router() -> APIRouter:
    """Return a router without path prefix. Its routes are not in the OpenAPI document."""
    return APIRouter(include_in_schema=False, **_common())


def page_router(prefix: str = "") -> APIRouter:
    """Return a router of pages. Its routes refuse unknown query parameters."""
    common = _common()
    common["dependencies"].append(Depends(known_parameters))
    return APIRouter(prefix=prefix, include_in_schema=False, default_response_class=HTMLResponse, **common)


def _common() -> _Common:
    return {
        "dependencies": [Depends(enter), Depends(BEARER)],
        "responses": {"default": {"description": "A problem document", "content": errors.CONTENT}},
        "generate_unique_id_function": _operation_id,
    }


def _operation_id(route: APIRoute) -> str:
    return route.name
