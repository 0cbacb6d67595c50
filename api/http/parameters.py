"""Query parameters of pages: unknown ones are refused by name."""

from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import Request
from fastapi.routing import APIRoute

from api.http.query import parameters, refuse_unknown

F = TypeVar("F", bound=Callable[..., Any])

PAGES = "parameters of this page"
_MARK = "__knows_its_parameters__"


def declares_parameters(endpoint: F) -> F:
    """Mark a page that calls `refuse_unknown` itself, because its parameters depend on each other."""
    setattr(endpoint, _MARK, True)
    return endpoint


def known_parameters(request: Request) -> None:
    """Refuse query parameters that the page would ignore.

    Raises:
        InvalidInput: names the first unknown parameter and the known ones.
    """
    route = request.scope["route"]
    if request.method == "GET" and isinstance(route, APIRoute) and not hasattr(route.endpoint, _MARK):
        refuse_unknown(request.query_params, parameters(route), PAGES)
