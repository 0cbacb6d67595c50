"""Requests to a language model, over OpenAI's or Anthropic's protocol."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

import httpx

from evo.client.route import http_client
from evo.errors import EvoError, InvalidInput
from evo.text.secrets import sendable

Protocol: TypeAlias = Literal["openai", "anthropic"]
BASES: Mapping[Protocol, str] = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com/v1"}
KEYS: Mapping[Protocol, str] = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
"""Environment variables that contain the keys. Keys are only sent, never stored or logged."""

KEY_VARIABLE = "KERNEL_EVO_MODEL_KEY"
"""Environment variable that contains the key for the service at --base-url."""

ATTEMPTS = 5
MOST_WAIT_S = 120.0
FIRST_WAIT_S = 1.0
AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
MOST_ANSWER_BYTES = 8 << 20


class ModelFailed(EvoError, RuntimeError):
    """Raised if the model's service gave no usable answer. `charged` is True if the request may cost money."""

    def __init__(self, reason: str, *, charged: bool) -> None:
        super().__init__(reason)
        self.charged = charged


@dataclass(frozen=True, kw_only=True)
class Message:
    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A model's answer. The token counts of request and answer are None if the service did not state them."""

    text: str
    tokens_in: int | None
    tokens_out: int | None


@dataclass(frozen=True, kw_only=True)
class Prices:
    """Prices of a request and of its answer in USD per million tokens."""

    tokens_in: float = 0.0
    tokens_out: float = 0.0

    def of(self, tokens_in: int, tokens_out: int) -> float:
        """Return the cost of a request in USD."""
        return (self.tokens_in * tokens_in + self.tokens_out * tokens_out) / 1e6


@dataclass(frozen=True, kw_only=True)
class Chat:
    """Sends requests to one model of a service.

    Attributes:
        base_url: address of the API, ending in its version, e.g. ``http://127.0.0.1:11434/v1``.
        key: key that is sent with each request; None if no key is sent.
        most_tokens: maximum length of an answer in tokens.
        timeout_s: a request fails if no byte of the answer arrives for this number of seconds.
        sleep: function that waits; tests replace it.
    """

    model: str
    protocol: Protocol = "openai"
    base_url: str
    key: str | None = None
    most_tokens: int = 8192
    timeout_s: float = 300.0
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        try:
            host = urlsplit(self.base_url).hostname
        except ValueError:
            host = None
        if not host or not self.base_url.startswith(("http://", "https://")):
            raise InvalidInput("base_url", f"{self.base_url!r:.100} is not an http:// or https:// address")
        if self.key is not None:
            sendable("key", self.key, form="in one line")

    @property
    def longest_s(self) -> float:
        """Seconds after which `ask` has ended, unless an answer is still arriving."""
        return ATTEMPTS * (self.timeout_s + MOST_WAIT_S)

    def most_cost(self, messages: Sequence[Message], prices: Prices) -> float:
        """Return an upper limit of the cost of a request and its answer in USD: each byte is counted as a token."""
        longest = sum(len(each.text.encode()) + 16 for each in messages)
        return prices.of(longest, self.most_tokens)

    def ask(self, messages: Sequence[Message]) -> Answer:
        """Return the model's answer.

        If the service cannot be reached, is busy or has an internal error, the request is repeated after a pause.

        Raises:
            ModelFailed: the service refuses the request, cannot be reached in `ATTEMPTS` attempts, or sends no usable
                answer.
        """
        reason = ""
        for attempt in range(ATTEMPTS):
            try:
                with http_client(self.base_url, headers=self._headers, timeout=httpx.Timeout(self.timeout_s)) as client:
                    response = client.post(self._url, json=self._body(messages))
            except httpx.ConnectError as error:
                reason = f"{self.base_url} cannot be reached: {error}"
            except httpx.HTTPError as error:
                cause = error or type(error).__name__
                raise ModelFailed(
                    f"no complete answer arrived from the model's service: {cause}", charged=True
                ) from error
            else:
                if response.status_code == httpx.codes.OK:
                    return self._read(response)
                reason = self._without_key(f"{response.status_code}: {response.text[:300]}")
                if response.status_code not in AGAIN:
                    break
                self.sleep(_wait_s(response, attempt))
                continue
            self.sleep(FIRST_WAIT_S * 2**attempt)
        raise ModelFailed(f"the request to the model's service failed: {reason}", charged=False)

    def _without_key(self, text: str) -> str:
        return text if self.key is None else text.replace(self.key, "…")

    @property
    def _url(self) -> str:
        path = "chat/completions" if self.protocol == "openai" else "messages"
        return f"{self.base_url.rstrip('/')}/{path}"

    @property
    def _headers(self) -> dict[str, str]:
        if self.protocol == "anthropic":
            return {"anthropic-version": "2023-06-01"} | ({} if self.key is None else {"x-api-key": self.key})
        return {} if self.key is None else {"Authorization": f"Bearer {self.key}"}

    def _body(self, messages: Sequence[Message]) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "max_tokens": self.most_tokens}
        if self.protocol == "openai":
            return body | {"messages": [{"role": each.role, "content": each.text} for each in messages]}
        system = "\n\n".join(each.text for each in messages if each.role == "system")
        others = [{"role": each.role, "content": each.text} for each in messages if each.role != "system"]
        return body | {"system": system, "messages": others}

    def _read(self, response: httpx.Response) -> Answer:
        try:
            if len(response.content) > MOST_ANSWER_BYTES:
                raise ModelFailed(f"the model's response is larger than {MOST_ANSWER_BYTES >> 20} MiB", charged=True)
            body = response.json()
            usage = body.get("usage") or {}
            if self.protocol == "openai":
                text = body["choices"][0]["message"].get("content") or ""
                counts = (usage.get("prompt_tokens"), usage.get("completion_tokens"))
            else:
                text = "".join(part.get("text", "") for part in body["content"])
                counts = (usage.get("input_tokens"), usage.get("output_tokens"))
            tokens_in, tokens_out = (_count(each) for each in counts)
            return Answer(text=str(text), tokens_in=tokens_in, tokens_out=tokens_out)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise ModelFailed(
                f"the model's response does not follow the {self.protocol} protocol: {error}", charged=True
            ) from error


def chat_of(provider: Protocol, model: str, base_url: str | None, *, most_tokens: int = 8192) -> Chat:
    """Return the chat with a model.

    The key is read from an environment variable: `KEY_VARIABLE` if `base_url` is given, else the provider's variable
    in `KEYS`. A provider's key is thus never sent to a different address.

    Raises:
        InvalidInput: `base_url` is None and the environment contains no key for the provider.
    """
    key = os.environ.get(KEY_VARIABLE if base_url is not None else KEYS[provider]) or None
    if base_url is None and key is None:
        remedy = "export it, or name another service with --base-url"
        raise InvalidInput(KEYS[provider], f"is not set, and {BASES[provider]} needs a key; {remedy}")
    return Chat(model=model, protocol=provider, base_url=base_url or BASES[provider], key=key, most_tokens=most_tokens)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _wait_s(response: httpx.Response, attempt: int) -> float:
    """Return the pause before the next request in seconds, at most `MOST_WAIT_S`.

    The service may state the pause (``retry-after``). Otherwise, the pause doubles with each attempt.
    """
    try:
        asked = float(response.headers.get("retry-after", ""))
    except ValueError:
        asked = FIRST_WAIT_S * 2**attempt
    return min(max(asked, 0.0), MOST_WAIT_S)
