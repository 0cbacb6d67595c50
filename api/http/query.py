"""What may stand behind the question mark of an address; nothing stands there twice where one is taken."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any, get_args, get_origin

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel

from evo.errors import InvalidInput
from evo.text.suggestion import unknown


def refuse_repeated(request: Request) -> None:
    """Refuse a parameter that is given twice where one is taken: the rest would be ignored, and the caller misled.

    Raises:
        InvalidInput: names the first of them.
    """
    route = request.scope.get("route")
    counted = Counter(name for name, _ in request.query_params.multi_items())
    for name, times in counted.items():
        if times > 1 and not (isinstance(route, APIRoute) and parameters(route).get(name, False)):
            raise InvalidInput(name[:80], f"is given {times} times: keep one")


def refuse_unknown(given: Iterable[str], known: Collection[str], what: str = "parameters") -> None:
    """Refuse a parameter that would be ignored, and the caller misled.

    Raises:
        InvalidInput: names the first that is not known, and those that are.
    """
    for name in given:
        if name not in known:
            raise InvalidInput(name[:80], unknown(name[:80], known, what))


async def known_to_route(request: Request) -> None:
    """The same for a request, whose route knows its parameters."""
    route = request.scope["route"]
    if request.query_params and isinstance(route, APIRoute):
        refuse_unknown(request.query_params, parameters(route))


def parameters(route: APIRoute) -> dict[str, bool]:
    """The query parameters of a route and of all that it depends on: name → whether it may be repeated."""
    return dict(_named(route.dependant))


def _named(dependant: Dependant) -> Iterator[tuple[str, bool]]:
    for field in dependant.query_params:
        annotation = field.field_info.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            inner = annotation.model_fields.items()
            yield from ((each.alias or name, _several(each.annotation)) for name, each in inner)
        else:
            yield field.alias, _several(annotation)
    for each in dependant.dependencies:
        yield from _named(each)


def _several(annotation: Any) -> bool:
    """Whether it is a list, or a list among other things."""
    return list in {get_origin(each) for each in (annotation, *get_args(annotation))}
