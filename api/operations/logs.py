"""Writes structured logs to standard error, with a line for each request.

Requests that succeed, and responses with status 404, are logged at the level debug.
"""

import io
import logging
import sys
import time
import uuid
from typing import Literal, TextIO, cast

import structlog
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.auth.throttle import Rate, Throttle
from evo.text.log_stream import LogStream
from evo.text.visible import visible

log = structlog.get_logger("http")

LONGEST_PATH, LONGEST_METHOD = 200, 20
"""Maximum number of characters of a path and a method in a log line, because clients choose them."""

REFUSALS = Rate(per_s=1, burst=100)
"""Rate limit of log lines about refused requests, so that unauthenticated clients cannot fill the disk."""


def configure(form: Literal["console", "json"], level: str) -> None:
    """Set up logging for this process. Only the entry point of a program calls this function."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    console = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_visible_traceback)
    last: list[structlog.typing.Processor] = (
        [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
        if form == "json"
        else [_visible_values, console]
    )
    lines = cast("TextIO", LogStream())
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=lambda *_: structlog.PrintLogger(lines),
    )


def _visible_values(_logger: object, _method: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Return a log entry in which control characters are escaped, in strings and in collections.

    `repr` does not escape all control characters, e.g. variation selectors.
    """
    return {visible(name): value if name == "exc_info" else _visible_value(value) for name, value in line.items()}


def _visible_value(value: object) -> object:
    if isinstance(value, str):
        return visible(value)
    return visible(repr(value)) if isinstance(value, list | tuple | set | frozenset | dict) else value


def _visible_traceback(stream: TextIO, error: structlog.typing.ExcInfo) -> None:
    text = io.StringIO()
    structlog.dev.plain_traceback(text, error)
    stream.write(visible(text.getvalue()))


def bind_ids(request: Request) -> None:
    """Add the ids in the path (search, trial, attempt or worker) to every log line of a request."""
    ids = {
        name.removesuffix("_id"): str(value)[:LONGEST_PATH]
        for name, value in request.path_params.items()
        if name.endswith("_id")
    }
    structlog.contextvars.bind_contextvars(**ids)


class RequestLog:
    """Middleware that gives every request an id, and adds the id to the log lines and the response of the request.

    The rate of log lines about refused requests is limited to `REFUSALS`. The field `unlogged` of a line contains the
    number of lines that were omitted before this line.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._refusals = Throttle({"refusal": REFUSALS})
        self._unlogged = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id, began, status = uuid.uuid4().hex[:12], time.perf_counter(), 500

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
            await send(message)

        with structlog.contextvars.bound_contextvars(request=request_id):
            try:
                await self.app(scope, receive, send_with_id)
            finally:
                self._write(scope, status, took_ms=round(1e3 * (time.perf_counter() - began), 1))

    def _write(self, scope: Scope, status: int, *, took_ms: float) -> None:
        about: dict[str, object] = {
            "method": scope["method"][:LONGEST_METHOD],
            "path": scope["path"][:LONGEST_PATH],
            "status": status,
            "took_ms": took_ms,
        }
        if status >= 500:
            log.warning("request", **about)
        elif status < 400 or status == 404:  # status 404 may be a normal response
            log.debug("request", **about)
        elif self._refusals.wait_s("refusal", "") > 0:
            self._unlogged += 1
        else:
            left_out, self._unlogged = self._unlogged, 0
            log.info("request", **about, **({"unlogged": left_out} if left_out else {}))
