"""Connections are files, of which a process has so many: enough of them, and none for requests that never come."""

import asyncio
import resource

import structlog
from uvicorn.protocols.http.h11_impl import H11Protocol

log = structlog.get_logger("service")

HEADERS_S = 20.0
"""What the headers of a request may take to arrive, from the connection or their first byte on."""


class Punctual(H11Protocol):
    """Closes a connection on which no request arrives: uvicorn waits for ever, and strangers could take them all."""

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
    """Let this process have as many files as it may: the usual limit of 1,024 is that of interactive programs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:  # some systems allow less than they say
        log.warning("as many files as before", limit=soft, reason=str(error))
