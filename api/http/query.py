"""Refuses unknown query parameters, and repeated parameters that accept only one value."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, TypeVar, get_args, get_origin

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel

from evo.errors import InvalidInput
from evo.text.suggestion import unknown


def refuse_repeated(request: Request) -> None:
    """Refuse a repeated query parameter that accepts only one value.

    The service does not choose one of the values, because the caller may have meant another.

    Raises:
        InvalidInput: a parameter that accepts one value is repeated.
    """
    route = request.scope.get("route")
    counted = Counter(name for name, _ in request.query_params.multi_items())
    for name, times in counted.items():
        if times > 1 and not (isinstance(route, APIRoute) and parameters(route).get(name, False)):
            raise InvalidInput(name[:80], f"was given {times} times; send it once")


def refuse_unknown(given: Iterable[str], known: Collection[str], what: str = "parameters") -> None:
    """Refuse unknown parameters, so that a mistyped filter is not ignored.

    Args:
        what: plural noun for the parameters, used in the error message.

    Raises:
        InvalidInput: a parameter is unknown.
    """
    for name in given:
        if name not in known:
            raise InvalidInput(name[:80], unknown(name[:80], known, what))


async def known_to_route(request: Request) -> None:
    """Refuse query parameters that the route does not declare."""
    route = request.scope["route"]
    if request.query_params and isinstance(route, APIRoute):
        refuse_unknown(request.query_params, parameters(route))


def parameters(route: APIRoute) -> dict[str, bool]:
    """Return whether each query parameter of a route and its dependencies may be repeated, by name."""
    return dict(_parameters_of(route.dependant))


def _parameters_of(dependant: Dependant) -> Iterator[tuple[str, bool]]:
    for field in dependant.query_params:
        annotation = field.field_info.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            inner = annotation.model_fields.items()
            yield from ((each.alias or name, _several(each.annotation)) for name, each in inner)
        else:
            yield field.alias, _several(annotation)
    for each in dependant.dependencies:
        yield from _parameters_of(each)


def _several(annotation: Any) -> bool:
    """Return True if a type annotation is a list, or a union that contains a list."""
    return list in {get_origin(each) for each in (annotation, *get_args(annotation))}


F = TypeVar("F", bound=Callable[..., Any])

PAGES = "parameters of this page"
_MARK = "__knows_its_parameters__"


def declares_parameters(endpoint: F) -> F:
    """Mark a page that calls `refuse_unknown` itself, because its valid parameters depend on each other."""
    setattr(endpoint, _MARK, True)
    return endpoint


def known_parameters(request: Request) -> None:
    """Refuse query parameters that the page does not use.

    Raises:
        InvalidInput: a parameter is unknown.
    """
    route = request.scope["route"]
    if request.method == "GET" and isinstance(route, APIRoute) and not hasattr(route.endpoint, _MARK):
        refuse_unknown(request.query_params, parameters(route), PAGES)
