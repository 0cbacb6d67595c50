"""Identifies the caller of a request before the body is read, and applies rate limits.

A request that needs a token or session, but has none, is refused. If its body is a short form, the form's fields are
kept, so that the form can be filled in again after the sign-in.
"""

import ipaddress
import math
from urllib.parse import quote

import structlog
from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.auth.authentication import Gate
from api.auth.caller import ANY_LOCAL_CALLER, STRANGER, Caller, enter
from api.auth.form_values import keep_typed
from api.auth.permission import PUBLIC, rules
from api.auth.throttle import Rate, Throttle
from api.http.errors import answer, wants_page
from api.http.middleware.forwarding import address_of
from api.operations.logs import LONGEST_PATH
from db.engine.unavailable import StoreUnavailable
from evo.text.shell import command

log = structlog.get_logger("access")

SIGN_IN = "/sign-in"
WRONG = f"{SIGN_IN}?wrong=token"
"""Redirect target after a sign-in with an invalid token."""
STATIC = "/static/"
METRICS = "/metrics"
"""Path of the metrics. Monitoring programs request this path, so a request without a valid token gets status 401, never
a redirect to the sign-in page."""
PROBES = frozenset({"/api/v1/health", "/api/v1/ready"})
"""Paths of the health checks. Their callers are not identified, because identification would need the database."""
BEARER = "bearer "

LONGEST_ADDRESS = 64
"""Maximum number of characters of a client address. Longer text from a proxy is cut."""

ANONYMOUS = Rate(per_s=20, burst=100)
FAILURES = Rate(per_s=0.1, burst=10)
"""Rate limit on invalid tokens from one address, in requests and forms: a burst of ten, then one every ten seconds."""


class Admission:
    """Middleware that identifies the caller of a request, or refuses the request.

    Args:
        per_caller: rate limit of the requests with one token.
    """

    def __init__(self, app: ASGIApp, per_caller: Rate) -> None:
        self.app = app
        self._public: frozenset[tuple[str, str]] | None = None
        self._throttle = Throttle({"caller": per_caller, "address": ANONYMOUS, "failure": FAILURES})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        refused = await self._refused(request)
        if refused is None and (request.method, request.url.path) == ("POST", SIGN_IN):
            await self._signing_in(request, receive, send)
        else:
            await (refused or self.app)(scope, receive, send)

    async def _signing_in(self, request: Request, receive: Receive, send: Send) -> None:
        """Handle a request that signs in.

        Only attempts with invalid tokens count towards the rate limit, so a valid token always signs in.
        """
        refused: Response | None = None

        async def watched(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start" and _is_wrong(message):
                wait_s = self._throttle.wait_s("failure", _address(request))
                refused = _too_many(request, wait_s) if wait_s > 0 else None
            if refused is None:
                await send(message)

        await self.app(request.scope, receive, watched)
        if refused is not None:
            await refused(request.scope, receive, send)

    async def _refused(self, request: Request) -> Response | None:
        """Return the response that refuses a request. If the request is admitted, set its caller and return None."""
        address = _address(request)
        gate: Gate = request.app.state.service.gate
        is_open = gate.was_open if request.url.path in PROBES else await _is_open(request, gate)
        sign = address_of(request).outside if is_open else None
        who = ANY_LOCAL_CALLER if is_open and sign is None else await _identified(request, gate)
        if (wait_s := self._wait_s(request, who, address)) > 0:
            return _too_many(request, wait_s)
        if who is None:
            log.warning("request with an invalid token refused", address=address, path=request.url.path[:LONGEST_PATH])
            return _unknown(request, "this token is not valid: it may be mistyped, expired, revoked or rotated")
        if who is STRANGER and not self._is_public(request):
            if sign is not None:
                log.warning(
                    "request from another machine refused, because no token exists",
                    address=address,
                    path=request.url.path[:LONGEST_PATH],
                    sign=sign[:LONGEST_PATH],
                )
                return _no_token_yet(request, sign)
            if wants_page(request) and request.url.path != METRICS:
                await keep_typed(request)
            return _unknown(request, "this service requires a token")
        enter(who)
        return None

    def _wait_s(self, request: Request, who: Caller | None, address: str) -> float:
        if who is None:
            return self._throttle.wait_s("failure", address)
        if who is STRANGER:
            return self._throttle.wait_s("address", address)
        return 0.0 if who.key is None else self._throttle.wait_s("caller", who.key)

    def _is_public(self, request: Request) -> bool:
        if self._public is None:
            self._public = frozenset((method, path) for method, path, rule in rules(request.app) if rule == PUBLIC)
        return request.url.path.startswith(STATIC) or (request.method, request.url.path) in self._public


def _is_wrong(start: Message) -> bool:
    """Return True if the response refuses a sign-in because of an invalid token."""
    return Headers(raw=start["headers"]).get("location", "").startswith(WRONG)


def _address(request: Request) -> str:
    """Return the rate-limit key of a client: its IPv4 address or its IPv6 /64 network.

    A whole /64 network usually belongs to one customer of a provider.
    """
    host = request.client.host if request.client else "?"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host[:LONGEST_ADDRESS]
    return str(ipaddress.ip_network((address, 64), strict=False)) if address.version == 6 else host


async def _is_open(request: Request, gate: Gate) -> bool:
    """Return True if callers on this machine need no token now.

    While the database is unavailable, requests for metrics get the result of the last successful read.

    Raises:
        StoreUnavailable: the database is unavailable, and the request is not for metrics.
    """
    try:
        return gate.open_lately or await run_in_threadpool(gate.is_open)
    except StoreUnavailable:
        if request.url.path != METRICS:
            raise
        return gate.was_open


async def _identified(request: Request, gate: Gate) -> Caller | None:
    """Return the caller of a request, or None if the token of the request is invalid.

    A request without a token and without a valid session gets the caller `STRANGER`. If the database is unavailable, a
    request for metrics is accepted if its token was valid when the database was last read.
    """
    if request.url.path in PROBES:
        return STRANGER
    authorization = request.headers.get("authorization", "")
    secret = authorization[len(BEARER) :].strip() if authorization.lower().startswith(BEARER) else ""
    session = request.cookies.get(gate.cookie)
    try:
        if authorization:
            return gate.lately("token", secret) or await run_in_threadpool(gate.by_token, secret)
        if session:
            return gate.lately("session", session) or await run_in_threadpool(gate.by_session, session) or STRANGER
    except StoreUnavailable:
        known = gate.known_before("token" if authorization else "session", secret if authorization else session or "")
        if request.url.path != METRICS or known is None:
            raise
        return known
    return STRANGER


def _unknown(request: Request, reason: str) -> Response:
    """Return the response to a caller without a valid token or session.

    A page request is redirected to the sign-in page. All other requests get status 401.
    """
    page = wants_page(request) and request.url.path != METRICS and request.method in {"GET", "HEAD"}
    if page and request.headers.get("sec-fetch-mode", "navigate") == "navigate":
        wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"{SIGN_IN}?next={quote(wanted)}", 303)
    ways = "send a valid token with `Authorization: Bearer …` (--token or KERNEL_EVO_TOKEN)"
    response = answer(request, 401, f"{reason}; {ways}, or sign in at {SIGN_IN}")
    response.headers["WWW-Authenticate"] = 'Bearer realm="kernel-evo"'
    return response


def _no_token_yet(request: Request, sign: str) -> Response:
    """Return the response that refuses a client on another machine because no token exists yet.

    Such a client reaches the service through a proxy on this machine.

    Args:
        sign: the header that shows that the client is on another machine.
    """
    host, port = request.scope["server"]
    there = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    create = command("token", "create", "NAME", "--role", "admin", "--url", there)
    shown = sign[:LONGEST_PATH]
    reason = (
        f"no token exists yet, so this service serves only its own machine, but {shown!r} shows a client on a "
        "different machine"
    )
    return answer(request, 403, f"{reason}; create a token on the machine of the service (`{create}`), and send it")


def _too_many(request: Request, wait_s: float) -> Response:
    seconds = math.ceil(wait_s)
    response = answer(request, 429, f"too many requests; wait {seconds} s")
    response.headers["Retry-After"] = str(seconds)
    return response
