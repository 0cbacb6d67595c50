"""Refuses request bodies that are too large, compressed, or of ambiguous length, if possible before reading them."""

from anyio import move_on_after
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.auth.caller import STRANGER, caller
from api.auth.form_values import FORMS
from api.http.errors import answer

MOST_BYTES = 64 << 20

STRANGERS_BYTES = 64 << 10
"""Maximum size in bytes of a body from a caller that is not signed in."""

JSON_BYTES, FORM_BYTES = 16 << 20, 256 << 10
"""Maximum size in bytes of JSON documents and forms, which are parsed as a whole.

Parsing needs many times the size of the body in memory. Uploaded files are not parsed, so they may be larger. While a
form is parsed, other requests wait, and parsing a megabyte of `%` takes more than a second.
"""

DRAINED, DRAINED_S = 4, 30.0
"""A refused body is read and discarded up to `DRAINED` times its limit, for at most `DRAINED_S` seconds. Most clients
read the response only after they have sent the whole body. If a client sends more, its connection is closed.
"""


class TooLarge(HTTPException):
    """Raised while a body is read, if the body exceeds the limit."""


class BodyLimit:
    """Middleware that limits the size of request bodies.

    The middleware runs after authentication, because the limit depends on the caller.
    """

    def __init__(self, app: ASGIApp, most_bytes: int | None = None) -> None:
        self.app = app
        self.most_bytes = most_bytes or MOST_BYTES

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (refusal := _refusal(Request(scope))) is not None:
            await refusal(scope, receive, send)
            return
        most = min(self.most_bytes, _most_bytes(scope))
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and int(declared) > most:
            if "expect" not in Headers(scope=scope):  # the client waits for a response before it sends the body
                await _drain(receive, DRAINED * most)
            await answer(Request(scope), 413, too_large(most))(scope, receive, send)
            return
        taken = 0

        async def receive_within() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > most:
                if message.get("more_body", False):
                    await _drain(receive, DRAINED * most - taken)
                raise TooLarge(413, too_large(most))
            return message

        try:
            await self.app(scope, receive_within, send)
        except TooLarge as error:  # answered here, because the error handlers run inside this middleware
            await answer(Request(scope), 413, error.detail)(scope, receive, send)


def _refusal(request: Request) -> Response | None:
    """Return the response that refuses a body because of its headers, or None if the body may be read."""
    if {"content-length", "transfer-encoding"} <= set(request.headers):
        # request smuggling: a proxy and this service may use different lengths, so that one of them treats the rest of
        # the body as a new request (RFC 9112, section 6.3)
        refused = answer(request, 400, "Content-Length and Transfer-Encoding are both given: send one of them")
        refused.headers["connection"] = "close"
        return refused
    packing = request.headers.get("content-encoding", "").strip().lower()
    if packing not in ("", "identity"):
        return answer(request, 415, f"Content-Encoding: {packing!r:.40} is not supported; send the body uncompressed")
    return None


def _most_bytes(scope: Scope) -> int:
    if caller() is STRANGER:
        return STRANGERS_BYTES
    kind = Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return JSON_BYTES
    return FORM_BYTES if kind in FORMS else MOST_BYTES


async def _drain(receive: Receive, most_bytes: int) -> None:
    """Read and discard the rest of the body, at most `most_bytes`."""
    with move_on_after(DRAINED_S):
        while most_bytes > 0:
            message = await receive()
            if message["type"] != "http.request" or not message.get("more_body", False):
                return
            most_bytes -= len(message.get("body", b""))


def too_large(most_bytes: int) -> str:
    size = f"{most_bytes >> 20} MiB" if most_bytes >> 20 else f"{most_bytes:,} bytes"
    return f"the body is larger than the {size} that this service accepts; send less, or in parts"
