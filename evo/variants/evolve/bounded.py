"""HTTP client that limits request headers and response sizes, for the SDKs of language models."""

import time
from typing import Any

import httpx2

from evo.variants.evolve.message import LONGEST_ANSWER, ModelFailed
from evo.variants.evolve.provider import without_key

MOST_ANSWER_BYTES = 8 << 20

SENT = frozenset(
    {
        *("host", "connection", "content-length", "content-type", "accept", "accept-encoding", "user-agent"),
        "anthropic-version",
    }
)
"""Request headers that are sent. The SDKs also add the operating system, the version of Python, and the content of
environment variables such as `OPENAI_CUSTOM_HEADERS`, which may be meant for a different provider.
"""

CREDENTIALS = {"authorization": "Bearer {}", "x-api-key": "{}"}
"""Request headers that contain a key, with the format of their values. Only the provider's own key is sent."""

RECEIVED = ("content-type", "retry-after", "date", "location")
"""Response headers that are passed to the SDKs, which may log them."""


class BoundedClient(httpx2.Client):
    """HTTP client that reads complete responses of limited size and duration, and sends no key other than `key`.

    Args:
        key: key of the provider; None if no key is sent.
        timeout_s: a request fails if no byte of the response arrives for this number of seconds, or if the response is
            incomplete after `LONGEST_ANSWER` times this number of seconds.
        options: other arguments of `httpx2.Client`.
    """

    def __init__(self, *, key: str | None, timeout_s: float, **options: Any) -> None:
        super().__init__(timeout=httpx2.Timeout(timeout_s), **options)
        self._key = key
        self._longest_s = LONGEST_ANSWER * timeout_s

    def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """Send a request and return the complete response, even if `stream` is True.

        Raises:
            ModelFailed: the response is larger than `MOST_ANSWER_BYTES`.
            httpx2.RequestError: the provider cannot be reached, or its response is incomplete.
        """
        ends_s = time.monotonic() + self._longest_s
        response = super().send(self._stripped(request), stream=True, **options)
        try:
            content = self._content(response, ends_s)
        finally:
            response.close()
        received = {name: response.headers[name] for name in RECEIVED if name in response.headers}
        headers = {name: without_key(value, self._key).encode() for name, value in received.items()}
        return httpx2.Response(response.status_code, headers=headers, content=content, request=request)

    def _stripped(self, request: httpx2.Request) -> httpx2.Request:
        """Return a copy of the request with only the headers in `SENT` and the provider's own key."""
        headers = {name: request.headers[name] for name in SENT if name in request.headers}
        if self._key:
            headers |= {name: form.format(self._key) for name, form in CREDENTIALS.items() if name in request.headers}
        return httpx2.Request(
            request.method, request.url, headers=headers, content=request.read(), extensions=request.extensions
        )

    def _content(self, response: httpx2.Response, ends_s: float) -> bytes:
        content = bytearray()
        for part in response.iter_bytes():
            content += part
            if len(content) > MOST_ANSWER_BYTES:
                raise ModelFailed(f"the model's response is larger than {MOST_ANSWER_BYTES >> 20} MiB", charged=True)
            if time.monotonic() > ends_s:
                raise httpx2.ReadTimeout(
                    f"the response was incomplete after {self._longest_s:.0f} s", request=response.request
                )
        return bytes(content)
