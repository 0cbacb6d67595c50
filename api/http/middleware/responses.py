"""Middleware for responses, which handles ``HEAD``, ``If-None-Match``, compression and security headers."""

import hashlib
import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadersOnly(OSError):
    """Raised to end a streamed response to a HEAD request after its headers.

    Starlette treats an `OSError` of `send` as a disconnected client, and therefore ends the stream.
    """


class Head:
    """Middleware that runs a ``HEAD`` request as ``GET`` and drops the body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        started = ended = False

        async def send_headers(message: Message) -> None:
            nonlocal started, ended
            if ended:
                raise HeadersOnly
            if message["type"] == "http.response.start":
                started = True
                await send(message)
            elif message["type"] == "http.response.body":
                ended = True
                await send({"type": "http.response.body", "body": b""})
                if message.get("more_body", False):
                    raise HeadersOnly

        async def receive_until_answered() -> Message:
            return {"type": "http.disconnect"} if ended else await receive()

        try:
            await self.app({**scope, "method": "GET"}, receive_until_answered, send_headers)
        except Exception:
            if not ended:
                raise
        if started and not ended:
            await send({"type": "http.response.body", "body": b""})


COMPRESSED_BYTES = 2_000
COMPRESSION_LEVEL = 4
"""gzip level, from 1 to 9. The output is slightly larger than at level 9, and compression takes a third of the time."""


class Compressed:
    """Middleware that compresses large `GET` responses, except event streams and files that are already compressed."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._packing = GZipMiddleware(app, minimum_size=COMPRESSED_BYTES, compresslevel=COMPRESSION_LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":
            await self.app(scope, receive, send)
            return
        accepted = b"gzip" if accepts_gzip(Headers(scope=scope).get("accept-encoding", "")) else b"identity"
        others = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]
        await self._packing({**scope, "headers": [*others, (b"accept-encoding", accepted)]}, receive, send)


def accepts_gzip(value: str) -> bool:
    """Return True if an ``Accept-Encoding`` value names gzip. A weight of 0 forbids gzip (RFC 9110, section 12.5.3)."""
    for part in value.lower().split(","):
        name, _, weight = part.replace(" ", "").partition(";")
        if name == "gzip":
            return not NO_WEIGHT.fullmatch(weight)
    return False


NO_WEIGHT = re.compile(r"q=0(\.0*)?")

TAGGED_PATHS = "/api/v1/"
KEPT_HEADERS = frozenset({"etag", "cache-control", "content-location", "date", "expires", "vary"})


class Conditional:
    """Middleware that adds a weak entity tag (``ETag``) to REST responses, and compares it with ``If-None-Match``.

    An entity tag that a route has set is kept. Streams and pages get none. Each page contains a different CSRF token,
    so its entity tag would never match.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET" or not scope["path"].startswith(TAGGED_PATHS):
            await self.app(scope, receive, send)
            return
        wanted = ",".join(Headers(scope=scope).getlist("if-none-match")) or None
        start: Message | None = None
        unchanged = False

        async def send_if_changed(message: Message) -> None:
            nonlocal start, unchanged
            if message["type"] == "http.response.start" and message["status"] == 200:
                start = message
                return
            if start is not None:
                complete = not message.get("more_body", False)
                tag = _tag(start, message.get("body", b"") if complete else None)
                unchanged = tag is not None and wanted is not None and matches(wanted, tag)
                await send(_not_modified(start) if unchanged else start)
                start = None
            await send({**message, "body": b""} if unchanged else message)

        await self.app(scope, receive, send_if_changed)


def matches(wanted: str, tag: str) -> bool:
    """Return True if an ``If-None-Match`` value contains this entity tag, or is ``*``.

    The comparison is weak (RFC 9110, section 13.1.2).
    """
    tags = {one.strip().removeprefix("W/") for one in wanted.split(",")}
    return wanted.strip() == "*" or tag.removeprefix("W/") in tags


def _tag(start: Message, body: bytes | None) -> str | None:
    """Return the entity tag (``ETag``) of a response, or None if it has none.

    If the route set no entity tag, a weak one is computed from the body, and added to the headers in `start`.

    Args:
        body: the complete body; None if the body is streamed.
    """
    headers = MutableHeaders(scope=start)
    if "etag" not in headers and body is not None:
        headers["etag"] = f'W/"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    return headers.get("etag")


def _not_modified(start: Message) -> Message:
    """Return the message with status 304 that replaces the start of a response.

    The message contains the `Vary` header that the complete response would have (RFC 9110, section 15.4.5).
    """
    MutableHeaders(scope=start).setdefault("vary", "Accept-Encoding")
    kept = [(name, value) for name, value in start["headers"] if name.decode("latin-1").lower() in KEPT_HEADERS]
    return {**start, "status": 304, "headers": kept}


SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
"""Default headers. A route may set different values, because pages need a wider policy."""

KEEP_SECURE = "max-age=31536000"


class SecurityHeaders:
    """Middleware that adds the security headers that a response lacks."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_carefully(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                if not scope["path"].startswith("/static/"):
                    headers.setdefault("Cache-Control", "no-store")
                if scope["scheme"] == "https":
                    headers.setdefault("Strict-Transport-Security", KEEP_SECURE)
            await send(message)

        await self.app(scope, receive, send_carefully)
