"""Sends requests to a language model with the SDKs of OpenAI and Anthropic. Requires the extra ``evolve``."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import httpx2

from evo.client.route import routed
from evo.client.transport import retry_after_s
from evo.text.secrets import masked
from evo.variants.evolve.bounded import BoundedClient
from evo.variants.evolve.message import Answer, Message, ModelFailed
from evo.variants.evolve.protocols.response import Response

if TYPE_CHECKING:
    from evo.variants.evolve.chat import Chat

MOST_TEXT = 900_000
"""Maximum number of characters of an answer. The rest is dropped: kernel-evo's service stores at most a million."""

MOST_TOKENS = 1_000_000_000
"""Largest plausible token count. A larger count in a response is ignored, because it is wrong."""


class Refused(Exception):
    """The provider answered with an error status or a redirect.

    Attributes:
        text: the response, without the key.
        again_s: seconds to wait before the next request (`Retry-After`); 0 if not stated.
    """

    def __init__(self, chat: "Chat", response: httpx2.Response) -> None:
        self.status = response.status_code
        self.text = chat.without_key(response.content.decode(errors="replace")).strip()
        self.again_s = retry_after_s(response.headers)
        if response.is_redirect:
            place = masked(chat.without_key(response.headers["location"]))
            super().__init__(f"{self.status}: the provider redirects to {place}")
        else:
            super().__init__(f"{self.status}: {self.text[:300] or response.reason_phrase}")


class NotSent(Exception):
    """The provider could not be reached, so it did not receive the request."""


def send(chat: "Chat", messages: Sequence[Message]) -> Answer:
    """Send one request and return the model's answer.

    Raises:
        Refused: the provider refuses the request, is busy, or has an internal error.
        NotSent: the provider cannot be reached.
        ModelFailed: the response is incomplete, too large, or does not follow the protocol.
        InvalidInput: the proxy or the certificates in the environment variables cannot be used.
    """
    sdk = import_module(chat.protocol)
    protocol = import_module(f"evo.variants.evolve.protocols.{chat.protocol}")
    with routed(
        BoundedClient, chat.base_url, invalid_url=httpx2.InvalidURL, key=chat.key, timeout_s=chat.timeout_s
    ) as http:
        try:
            response = protocol.create(chat, messages, http)
        except sdk.APIStatusError as error:
            raise Refused(chat, error.response) from None
        except sdk.APIConnectionError as error:
            raise _unanswered(chat, error.__cause__ or error) from error
    return _answer(chat, response, protocol.read)


def _unanswered(chat: "Chat", cause: BaseException) -> Exception:
    """Return the error for a request that got no complete response."""
    if isinstance(cause, ModelFailed):
        return cause
    reason = chat.without_key(str(cause)) or type(cause).__name__
    if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
        return NotSent(reason)
    return ModelFailed(f"no complete answer arrived from the provider: {reason}", charged=True)


def _answer(chat: "Chat", response: Any, read: Callable[[Any], Response]) -> Answer:
    """Return the answer in a response of an SDK, which `read` reads."""
    try:
        found = read(response.parse())
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        begins = chat.without_key(response.http_response.content.decode(errors="replace")).strip()[:200]
        reason = "is empty" if not begins else f"begins with {begins!r}"
        raise ModelFailed(
            f"the model's response does not follow the {chat.protocol} protocol: it {reason}", charged=True
        ) from error
    return Answer(
        text=chat.without_key(_storable(found.text)),
        tokens_in=_count(found.tokens_in),
        tokens_out=_count(found.tokens_out),
        ended=str(found.ended or "")[:40],
    )


def _storable(text: str) -> str:
    """Return the first `MOST_TEXT` characters, without NUL and unpaired surrogates, which databases cannot store."""
    return text[:MOST_TEXT].replace("\0", "").encode("utf-8", "replace").decode()


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS else None
