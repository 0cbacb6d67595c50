"""What may stand behind the question mark of a page's address: whatever the page does not know is refused by name."""

from collections.abc import Iterator

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from evo.errors import InvalidInput
from evo.suggestion import unknown


def known_parameters(request: Request) -> None:
    """Refuse an address that asks for something the page cannot do: it would be ignored, and the reader misled.

    Raises:
        InvalidInput: names the first parameter that this page has not, and those it has.
    """
    route = request.scope["route"]
    if request.method != "GET" or not isinstance(route, APIRoute):
        return
    known = parameters(route)
    for name in request.query_params:
        if name not in known:
            raise InvalidInput(name[:80], unknown(name[:80], known, "parameters of this page"))


def parameters(route: APIRoute) -> frozenset[str]:
    """The query parameters of a route and of all that it depends on."""
    return frozenset(_named(route.dependant))


def _named(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for each in dependant.dependencies:
        yield from _named(each)
