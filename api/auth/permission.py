"""One rule for each route, next to it: which role may use it."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException

from api.auth.caller import caller
from api.auth.csrf import check_csrf
from api.http.errors import RoleMissing
from api.http.text import refuse_unstorable

F = TypeVar("F", bound=Callable[..., Any])

Rule = frozenset[str]
PUBLIC: Rule = frozenset()
"""For everybody, signed in or not: what tells nothing and changes nothing."""

REGISTERING = "PUT"
"""What a worker does whose token is no worker's yet; it becomes this one's, if the registration succeeds."""

_MARK = "__access_rule__"


def allow(*roles: str) -> Callable[[F], F]:
    """Let callers with any of these roles use a route; stands below the route's own decorator."""
    return _marked(frozenset(roles))


def public(endpoint: F) -> F:
    """Let everybody use a route."""
    return _marked(PUBLIC)(endpoint)


def _marked(rule: Rule) -> Callable[[F], F]:
    def mark(endpoint: F) -> F:
        setattr(endpoint, _MARK, rule)
        return endpoint

    return mark


def rule_of(endpoint: object) -> Rule | None:
    """The rule of a route's function; None: nobody has given it one."""
    return getattr(endpoint, _MARK, None)


def rules(app: FastAPI) -> Iterator[tuple[str, str, Rule | None]]:
    """(method, path template, rule) of every route, web pages included."""
    for route in iter_route_contexts(app.routes):
        for method in sorted(getattr(route, "methods", None) or ()):
            yield method, route.path or "", rule_of(getattr(route, "endpoint", None))


async def authorise(request: Request) -> None:
    """Refuse whom the route's rule does not name; a route without a rule refuses all."""
    rule = rule_of(request.scope.get("endpoint"))
    if rule is None:
        raise HTTPException(403, f"{request.url.path} has no access rule, so nobody may use it: this is a bug")
    if rule:
        who = caller()
        if not rule & who.roles:
            raise RoleMissing(request, rule)
        worker_id, registering = request.path_params.get("worker_id"), who.unbound and request.method == REGISTERING
        if worker_id is not None and rule & who.roles == {"worker"} and not registering:
            who.speak_for(worker_id)
    refuse_unstorable({**request.path_params, **request.query_params})
    await check_csrf(request)
