"""Raises the open-file limit and closes connections that send no request."""

import asyncio
import resource

import structlog
from uvicorn.protocols.http.h11_impl import H11Protocol

log = structlog.get_logger("service")

HEADERS_S = 20.0
"""Seconds for the headers of a request to arrive, counted from the connection or their first byte."""


class TimedProtocol(H11Protocol):
    """Closes connections on which no request arrives, for which uvicorn would wait for ever."""

    _due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._arrived()
        elif self._due is None and (before is None or before.response_complete):
            self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        super().connection_lost(exc)

    def _expect(self) -> None:
        self._due = self.loop.call_later(HEADERS_S, self.transport.close)

    def _arrived(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None


def raise_limit() -> None:
    """Raise the open-file limit to the maximum. The usual 1,024 is meant for interactive programs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:  # some systems allow less than they report
        log.warning("the open-file limit cannot be raised", limit=soft, reason=str(error))
