"""Converts errors into RFC 9457 ``application/problem+json`` documents that name the field and a remedy."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from http import HTTPStatus
from typing import Any, cast

import structlog
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.auth.caller import caller
from api.http.etag import Outdated
from api.http.middleware.forwarding import address_of
from api.http.strict_json import Malformed
from db.engine.session import StoreUnavailable
from db.models.columns import UnreadableValue
from db.repositories.readable import named
from evo.errors import Conflict, EvoError, InvalidInput, MissingItem, NotFound
from evo.text.limits import NO_FIELD, refused
from evo.text.suggestion import closest

log = structlog.get_logger("http")

MEDIA_TYPE = "application/problem+json"

CONTENT: dict[str, Any] = {
    MEDIA_TYPE: {
        "schema": {
            "type": "object",
            "title": "Problem",
            "required": ["type", "title", "status", "detail"],
            "properties": {
                "type": {"type": "string"},
                "title": {"type": "string"},
                "status": {"type": "integer"},
                "detail": {"type": "string", "description": "what is wrong, and how to correct it"},
                "code": {"type": "string", "description": "kind of the error, e.g. `not-found`"},
                "field": {"type": "string", "description": "the offending field, e.g. `problem.S`"},
                "errors": {"type": "array", "items": {"type": "object"}},
                "roles": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "the caller needs one of these roles",
                },
            },
        }
    }
}
"""Response schema of errors, shared by all routes."""


class RoleMissing(HTTPException):
    """Raised if the caller has none of the roles that allow the request (status 403)."""

    def __init__(self, request: Request, roles: Iterable[str]) -> None:
        self.roles = sorted(roles)
        what = f"{request.method} {request.url.path}"
        super().__init__(403, f"{what} needs a token with the role {' or '.join(self.roles)}")


STOPPING = "the service is stopping and ended this request before it was complete; send the request again"

NO_ADDRESS = "no-such-address"
"""Code of a request for a path that no route serves."""

CODES: Mapping[int, str] = {
    401: "sign-in-needed",
    403: "forbidden",
    404: NO_ADDRESS,
    405: "no-such-method",
    413: "too-large",
    415: "unsupported-content",
    422: InvalidInput.code,
    429: "too-many-requests",
    500: "bug",
}
"""Error codes by status, for errors other than `EvoError`."""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An error, as shown on the error page.

    Attributes:
        plain: description of the error and its remedy, without hints about REST requests.
        code: code that identifies the kind of the error.
        missing: noun and key of a missing item, e.g. ``("search", "7")``. None if no item is missing.
        roles: roles that allow the request. Empty if no role is missing.
    """

    status: int
    plain: str
    code: str
    missing: tuple[str, str] | None = None
    roles: Sequence[str] = ()


TITLES: Mapping[int, str] = {413: "Content Too Large", 422: "Unprocessable Content"}
"""Status titles of RFC 9110 that differ between Python versions."""

STATUS: Mapping[type[EvoError], int] = {
    InvalidInput: 422,
    NotFound: 404,
    Outdated: 412,
    Conflict: 409,
    StoreUnavailable: 503,
}
"""Status by error class. An error has the status of its nearest base class in this table, or else status 500."""


MOST_NAMED = 20
"""Maximum number of invalid fields that one response lists."""

LONGEST_NAME, LONGEST_REASON = 200, 500
"""Maximum number of characters of a field name and of a reason."""

MOST_DETAIL = 4_000
"""Maximum number of characters of `detail`, which may list all valid values."""


def install(app: FastAPI) -> None:
    """Register handlers that answer every error with a problem document."""
    app.add_exception_handler(EvoError, _on_evo_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(ClientDisconnect, _on_disconnect)
    app.add_exception_handler(Exception, _on_bug)


def problem(status: int, detail: str, *, code: str = "", **extra: Any) -> Response:
    """Return a problem document. `extra` contains additional members of the document, e.g. ``field``.

    `detail` may contain parts of the request, so it is shortened to `MOST_DETAIL` characters.
    """
    title, code = TITLES.get(status, HTTPStatus(status).phrase), code or CODES.get(status, EvoError.code)
    body: dict[str, Any] = {"type": "about:blank", "title": title, "status": status, "code": code}
    body |= {"detail": shortened(detail, MOST_DETAIL), **extra}
    return JSONResponse(body, status, media_type=MEDIA_TYPE)


def wants_page(request: Request) -> bool:
    """Return True for a request of a browser outside the REST API.

    Browsers list HTML in `Accept`, and programs accept any type.
    """
    return not request.url.path.startswith("/api/") and "text/html" in request.headers.get("accept", "")


def answer(request: Request, status: int, detail: str, *, error: EvoError | None = None, **extra: Any) -> Response:
    """Return a problem document for programs, or a page for people.

    Args:
        error: the error to report if it is an `EvoError`, else None. It determines the ``code`` of the document and the
            text of the page.
    """
    code = CODES.get(status, EvoError.code) if error is None else error.code
    page = getattr(request.app.state, "error_page", None)
    if page is None or not wants_page(request):
        return problem(status, detail, code=code, **extra)
    refused = Refusal(
        status=status,
        plain=shortened(detail if error is None else error.plain, MOST_DETAIL),
        code=code,
        missing=(error.noun, error.key) if isinstance(error, MissingItem) else None,
        roles=extra.get("roles", ()),
    )
    return cast(Response, page(request, refused))


class Explained:
    """Middleware that answers unexpected exceptions, and errors that are raised in inner middleware.

    Such errors do not reach the exception handlers of the application. Starlette would answer them outside all
    middleware, without request id, security headers and metrics. It would then close the connection, so that the next
    request of the client fails. Requests that are cancelled because the service stops get status 503.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except asyncio.CancelledError:  # the service is stopping and cancelled the request
            if begun:
                raise
            await problem(503, STOPPING)(scope, receive, send)
        except Exception as error:
            if begun:
                raise
            request, own = Request(scope, receive), _own_error(error)
            response = await (_on_bug(request, error) if own is None else _on_evo_error(request, own))
            await response(scope, receive, send)


def _own_error(error: BaseException | None) -> EvoError | None:
    """Return the `EvoError` that caused an error, or None.

    If an error is raised while the body of a response is sent, Starlette wraps it in another exception.
    """
    while error is not None and not isinstance(error, EvoError):
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        else:
            error = error.__cause__ if isinstance(error, RuntimeError) else None
    return error


async def _on_evo_error(request: Request, error: Exception) -> Response:
    if isinstance(error, UnreadableValue):
        return _refusal(request, await run_in_threadpool(named, request.app.state.service.database, error))
    return _refusal(request, cast(EvoError, error))


def _refusal(request: Request, error: EvoError) -> Response:
    status = next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)
    if status >= 500:
        log.error("request failed", path=shortened(request.url.path, LONGEST_NAME), status=status, reason=str(error))
    extra: dict[str, Any] = {"field": shortened(error.field, LONGEST_NAME)} if isinstance(error, InvalidInput) else {}
    if isinstance(error, StoreUnavailable) and not may_see_places(request):
        return answer(request, status, error.public, error=StoreUnavailable(error.public))
    return answer(request, status, str(error), error=error, **extra)


def may_see_places(request: Request) -> bool:
    """Return True if errors may show hosts, paths and user names to the caller.

    Administrators may see them, and so may callers on this machine while they need no token.
    """
    if caller().can("admin"):
        return True
    return bool(request.app.state.service.gate.was_open) and address_of(request).outside is None


async def _on_validation_error(request: Request, error: Exception) -> Response:
    invalid = cast(RequestValidationError, error)
    found = invalid.errors()
    if any(each["loc"][:1] == ("path",) for each in found) and not request.url.path.startswith("/api/"):
        return answer(request, 404, f"there is no page at {request.url.path}")
    wrong = [_with_meant_field(each, request) for each in wrong_fields(found, invalid.body)]
    first = wrong[0]
    if first["field"] == "body" and isinstance(invalid.body, bytes) and invalid.body:  # the content type is not JSON
        first["reason"] = "must be sent as JSON; add the header `Content-Type: application/json`"
    return answer(request, 422, f"{first['field']}: {first['reason']}", field=first["field"], errors=wrong)


async def _on_http_error(request: Request, error: Exception) -> Response:
    error = cast(HTTPException, error)
    if isinstance(error, Malformed):
        return answer(request, 422, str(error.detail), field=shortened(error.field, LONGEST_NAME))
    if error.status_code == 400:  # raised by Starlette, which could not parse a form
        reason = f"cannot be read: {error.detail}"
        return answer(request, 422, f"body: {reason}", field="body", errors=[{"field": "body", "reason": reason}])
    details = {
        404: f"there is nothing at {request.url.path}; /api/v1/openapi.json lists all paths",
        405: f"{request.url.path} does not support {request.method}; /api/v1/openapi.json lists the methods",
    }
    extra: dict[str, Any] = {"roles": error.roles} if isinstance(error, RoleMissing) else {}
    response = answer(request, error.status_code, details.get(error.status_code, str(error.detail)), **extra)
    response.headers.update(error.headers or {})
    if error.status_code == 405:
        response.headers["allow"] = ", ".join(_methods(request))
    return response


def _methods(request: Request) -> list[str]:
    """Return all HTTP methods that the requested path supports.

    Each method of a path has a separate route, and Starlette would return only the methods of one route.
    """
    found: set[str] = set()
    for route in request.app.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= getattr(route, "methods", None) or {"GET"}
    found = found or {"GET"}  # static files have no route with methods
    return sorted(found | ({"HEAD"} if "GET" in found else set()))


async def _on_disconnect(request: Request, error: Exception) -> Response:
    """Return status 400 for a request whose client closed the connection before the end of the body."""
    return answer(request, 400, "the body ended before its stated length; send the request again")


async def _on_bug(request: Request, error: Exception) -> Response:
    log.error("unexpected exception in a request", path=shortened(request.url.path, LONGEST_NAME), exc_info=error)
    return answer(request, 500, "this is a bug in kernel-evo, not in your request; the service's log has the details")


def _sent(error: Mapping[str, Any], body: object) -> tuple[int | str, ...]:
    """Return the location of an error as a path of keys in the request.

    Pydantic adds names of types to the path; they are removed.
    """
    location: tuple[int | str, ...] = error["loc"]
    if location[:1] != ("body",):
        return location
    kept: list[int | str] = []
    inner: Any = body
    for part in location[1:]:
        present = isinstance(inner, list) and isinstance(part, int) and part < len(inner)
        if present or (isinstance(inner, dict) and part in inner):
            inner = inner[part]
            kept.append(part)
    return ("body", *kept, *(location[-1:] if error["type"] in ("missing", "missing_argument") else ()))


def _with_meant_field(wrong: dict[str, str], request: Request) -> dict[str, str]:
    """Add the most similar known field to an error about an unknown field. Other errors are returned unchanged.

    An error is also returned unchanged if no known field is similar.
    """
    body = getattr(request.scope.get("route"), "body_field", None)
    model: Any = getattr(getattr(body, "field_info", None), "annotation", None)
    if wrong["reason"] != NO_FIELD or not hasattr(model, "model_fields"):
        return wrong
    kinds = {name: each.annotation for name, each in model.model_fields.items()}
    inner = {name: [each.name for each in fields(kind)] for name, kind in kinds.items() if is_dataclass(kind)}
    for group, names in (("", kinds), *inner.items()):
        if (meant := closest(wrong["field"], names, cutoff=0.75)) is not None:
            written = f"{group}.{meant}" if group else meant
            return _field_error(wrong["field"], f"is not a known field; write {written}")
    return wrong


def wrong_fields(errors: Iterable[Mapping[str, Any]], body: object = None) -> list[dict[str, str]]:
    """Return the first `MOST_NAMED` invalid fields, with the reasons why they are invalid.

    If a field accepts several types, the reason has one part per type. If an element of a field's value is invalid,
    only the element is named, and the field's other types are not mentioned.

    Args:
        body: the parsed body of the request. None if the errors are in query parameters.
    """
    reasons: dict[str, list[str]] = {}
    for error in _relevant(errors):
        wrong = _wrong_field({**error, "loc": _sent(error, body)})
        reasons.setdefault(wrong["field"], []).append(wrong["reason"])
    outer = {field for field in reasons if any(other.startswith(f"{field}.") for other in reasons)}
    joined = {field: "; or ".join(dict.fromkeys(each)) for field, each in reasons.items() if field not in outer}
    return [_field_error(field, reason) for field, reason in list(joined.items())[:MOST_NAMED]]


def _relevant(errors: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the errors without those of object types that the client did not mean.

    If a field accepts several object types, Pydantic returns the errors for each type. Errors of a type whose `kind`
    differs from the `kind` in the request are left out. If no error is left, all errors are returned.
    """
    found = list(errors)
    others = {each["loc"][:-1] for each in found if each["type"] == "literal_error" and each["loc"][-1] == "kind"}
    return [each for each in found if not any(each["loc"][: len(other)] == other for other in others)] or found


def _wrong_field(error: Mapping[str, Any]) -> dict[str, str]:
    cause = error.get("ctx", {}).get("error")
    location = (
        error["loc"][:-1] if error["loc"][:1] == ("query",) and isinstance(error["loc"][-1], int) else error["loc"]
    )
    path = [f"{part!s:.100}" for part in location if part not in {"body", "query", "path"}]
    if isinstance(cause, InvalidInput):
        inner = [] if path[-1:] == [cause.field] else [cause.field]
        own = cause.field if "." in cause.field else ".".join([*path, *inner])
        return _field_error(own, cause.reason)
    return _field_error(".".join(path) or "body", refused(error) or str(error["msg"]))


def _field_error(field: str, reason: str) -> dict[str, str]:
    return {"field": shortened(field, LONGEST_NAME), "reason": shortened(reason, LONGEST_REASON)}


def shortened(text: str, most: int) -> str:
    """Return the text, cut to `most` characters and an ellipsis if it is longer."""
    return text if len(text) <= most else f"{text[:most]}…"
