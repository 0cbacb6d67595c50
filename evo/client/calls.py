"""What every group of requests is made with."""

import uuid
from typing import Any, TypeVar

import httpx

from evo.client.transport import Transport, parse, patience

T = TypeVar("T")


class Calls:
    """One connection pool; each noun of the service adds its requests."""

    _transport: Transport

    def _get(self, path: str, shape: type[T], **query: object) -> T:
        given = {name: _text(value) for name, value in query.items() if value is not None}
        return parse(self._transport.request("GET", path, params=given), shape)

    def _send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        repeat: bool = True,
        once: bool = False,
        seen: str | None = None,
        timeout_s: float | None = None,
    ) -> httpx.Response:
        """Ask for a change.

        Args:
            repeat: whether it may arrive twice.
            once: it may be sent twice, and the service is told to carry it out once.
            seen: entity tag of what the caller decides on.
        """
        options: dict[str, Any] = {} if timeout_s is None else {"timeout": patience(timeout_s)}
        headers = {"Idempotency-Key": str(uuid.uuid4())} if once else {}
        if seen is not None:
            headers["If-Match"] = seen
        return self._transport.request(method, path, repeat=repeat, json=body, headers=headers, **options)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
