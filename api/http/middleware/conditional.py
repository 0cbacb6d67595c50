"""``If-None-Match``: a client that has the current version gets 304 and no body."""

import hashlib

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PREFIX = "/api/v1/"
KEPT_HEADERS = frozenset({"etag", "cache-control", "content-location", "date", "expires", "vary"})


class Conditional:
    """Middleware that adds a weak ``ETag`` to REST answers without one and compares it with ``If-None-Match``.

    Streams get no tag. Pages get none either, because each carries its own CSRF token.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET" or not scope["path"].startswith(PREFIX):
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
                whole = not message.get("more_body", False)
                tag = _tag(start, message.get("body", b"") if whole else None)
                unchanged = tag is not None and wanted is not None and matches(wanted, tag)
                await send(_not_modified(start) if unchanged else start)
                start = None
            await send({**message, "body": b""} if unchanged else message)

        await self.app(scope, receive, send_if_changed)


def matches(wanted: str, tag: str) -> bool:
    """True if an ``If-None-Match`` value names this tag; weak comparison (RFC 9110, section 13.1.2)."""
    given = {one.strip().removeprefix("W/") for one in wanted.split(",")}
    return wanted.strip() == "*" or tag.removeprefix("W/") in given


def _tag(start: Message, body: bytes | None) -> str | None:
    """Return the tag of an answer. If the route set none and the body is complete, add one."""
    headers = MutableHeaders(scope=start)
    if "etag" not in headers and body is not None:
        headers["etag"] = f'W/"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    return headers.get("etag")


def _not_modified(start: Message) -> Message:
    kept = [(name, value) for name, value in start["headers"] if name.decode("latin-1").lower() in KEPT_HEADERS]
    return {**start, "status": 304, "headers": kept}
