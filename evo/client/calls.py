"""Base class of the classes that define the client's methods."""

import uuid
from typing import Any, TypeVar

import httpx

from evo.client.transport import Transport, parse, patience
from evo.text.wording import value_text

T = TypeVar("T")


class Calls:
    """Sends requests through one connection pool. Each subclass has the methods for one kind of resource."""

    _transport: Transport

    def _get(self, path: str, shape: type[T], **query: object) -> T:
        parameters = {name: value_text(value) for name, value in query.items() if value is not None}
        return parse(self._transport.request("GET", path, params=parameters), shape)

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
        """Send a request that changes the service's state, and return the response.

        Args:
            repeat: True if the service may execute the request twice.
            once: True to send an idempotency key, so that the service executes a retried request only once.
            seen: entity tag of the state that the caller knows. The service refuses the request if the state has a
                different tag. None skips the check.
            timeout_s: seconds to wait for the response; None for the client's default.
        """
        options: dict[str, Any] = {} if timeout_s is None else {"timeout": patience(timeout_s)}
        headers = {"Idempotency-Key": str(uuid.uuid4())} if once else {}
        if seen is not None:
            headers["If-Match"] = seen
        return self._transport.request(method, path, repeat=repeat, json=body, headers=headers, **options)
