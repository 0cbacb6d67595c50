"""Access rules. Each route names the roles that may call it."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException

from api.auth.caller import caller
from api.auth.csrf import check_csrf
from api.http.errors import RoleMissing
from api.http.strict_json import refuse_unstorable

F = TypeVar("F", bound=Callable[..., Any])

Rule = frozenset[str]
PUBLIC: Rule = frozenset()
"""Rule of routes that are open to all callers, even without sign-in. Such routes neither reveal nor change data."""

REGISTERING = "PUT"
"""HTTP method of a worker's registration. A worker token that is not bound to a worker may call no other route of a
worker. The registration binds the token to the worker."""

_MARK = "__access_rule__"


def allow(*roles: str) -> Callable[[F], F]:
    """Return a decorator that lets callers with any of the given roles call a route.

    The decorator must be below the route decorator.
    """
    return _marked(frozenset(roles))


def public(endpoint: F) -> F:
    """Decorator that lets all callers call a route, even without sign-in."""
    return _marked(PUBLIC)(endpoint)


def _marked(rule: Rule) -> Callable[[F], F]:
    def mark(endpoint: F) -> F:
        setattr(endpoint, _MARK, rule)
        return endpoint

    return mark


def rule_of(endpoint: object) -> Rule | None:
    """Return the access rule of a route function, or None if it has no rule."""
    return getattr(endpoint, _MARK, None)


def rules(app: FastAPI) -> Iterator[tuple[str, str, Rule | None]]:
    """Yield (method, path template, access rule) of every route, including pages. The rule is None if there is none."""
    for route in iter_route_contexts(app.routes):
        for method in sorted(getattr(route, "methods", None) or ()):
            yield method, route.path or "", rule_of(getattr(route, "endpoint", None))


async def authorise(request: Request) -> None:
    """Refuse callers that have none of the route's roles. A route without a rule refuses all callers.

    Public routes refuse no caller. Also check that a worker token belongs to the worker in the path, that the path and
    the query contain only text that can be stored, and that the CSRF token is valid.
    """
    rule = rule_of(request.scope.get("endpoint"))
    if rule is None:
        raise HTTPException(
            403, f"{request.url.path} has no access rule, so it refuses all callers; this is a bug in kernel-evo"
        )
    if rule:
        who = caller()
        if not rule & who.roles:
            raise RoleMissing(request, rule)
        worker_id, registering = request.path_params.get("worker_id"), who.unbound and request.method == REGISTERING
        if worker_id is not None and rule & who.roles == {"worker"} and not registering:
            who.speak_for(worker_id)
    refuse_unstorable({**request.path_params, **request.query_params})
    await check_csrf(request)
