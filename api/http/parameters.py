"""What may stand behind the question mark of a page's address: whatever the page does not know is refused by name."""

from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import Request
from fastapi.routing import APIRoute

from api.http.query import parameters, refuse_unknown

F = TypeVar("F", bound=Callable[..., Any])

PAGES = "parameters of this page"
_MARK = "__knows_its_parameters__"


def knows_its_parameters(endpoint: F) -> F:
    """Marks a page that calls `refuse_unknown` itself: which parameters it has depends on what some of them say."""
    setattr(endpoint, _MARK, True)
    return endpoint


def known_parameters(request: Request) -> None:
    """Refuse an address that asks for something the page cannot do: it would be ignored, and the reader misled.

    Raises:
        InvalidInput: names the first parameter that this page has not, and those it has.
    """
    route = request.scope["route"]
    if request.method == "GET" and isinstance(route, APIRoute) and not hasattr(route.endpoint, _MARK):
        refuse_unknown(request.query_params, parameters(route), PAGES)
