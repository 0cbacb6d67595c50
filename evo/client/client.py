"""Typed client of the REST API, used by workers, the command line and users."""

import time
from collections.abc import Callable

import httpx

from evo.client.artefacts import Artefacts
from evo.client.champions import Champions
from evo.client.events import Events
from evo.client.families import Families
from evo.client.leases import Work
from evo.client.searches import Searches
from evo.client.tokens import Tokens
from evo.client.transport import ATTEMPTS, Transport
from evo.client.upkeep import Upkeep
from evo.client.variants import Variants
from evo.client.workers import Workers


class Client(Families, Searches, Variants, Champions, Workers, Work, Artefacts, Events, Tokens, Upkeep):
    """One connection pool to one service; may be shared between threads.

    A request that may be sent twice is repeated, with growing, jittered pauses, while the service cannot be reached or
    reports that it is busy. Any other request is repeated only if it was never sent.

    Services on this machine are reached directly; others through the proxy that HTTP_PROXY, HTTPS_PROXY or ALL_PROXY
    names, unless NO_PROXY excludes them.

    Args:
        url: URL of the service, e.g. ``http://127.0.0.1:8765``.
        attempts: largest number of attempts per request.
        transport: replaces the network in tests.

    Raises:
        ServiceUnreachable, ServiceError, AccessDenied, InvalidInput, NotFound, Conflict: from every method.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout_s: float = 30.0,
        attempts: int = ATTEMPTS,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._transport = Transport(
            url, token=token, timeout_s=timeout_s, attempts=attempts, transport=transport, sleep=sleep
        )
        self.url = self._transport.url

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
