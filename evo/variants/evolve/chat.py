"""Requests to a language model, over OpenAI's or Anthropic's protocol."""

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

import httpx

from evo.client.route import http_client
from evo.client.transport import retry_after_s
from evo.errors import EvoError, InvalidInput
from evo.text.secrets import masked, sendable

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
MOST_TEXT = 900_000
"""Maximum number of characters of an answer. The rest is dropped, because the service stores at most a million."""

MOST_TOKENS = 1_000_000_000
"""A larger number of tokens in an answer's usage is an error of the model's service, and is ignored."""

LONGEST_ANSWER = 4
"""An answer must be complete within this multiple of `Chat.timeout_s`."""

LEAST_KEY = 8
"""Number of characters from which a key is secret."""

LENGTH = {"length", "max_tokens"}
"""Names that the two protocols use for an answer that ended at the maximum number of tokens."""


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
    """A model's answer.

    Attributes:
        tokens_in, tokens_out: numbers of tokens of request and answer; None if the service did not state them.
        ended: reason why the model stopped, as named by the service; empty if unknown.
    """

    text: str
    tokens_in: int | None
    tokens_out: int | None
    ended: str = ""


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
        timeout_s: a request fails if no byte of the answer arrives for this number of seconds, or if the answer is
            incomplete after `LONGEST_ANSWER` times this number of seconds.
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
        shown = masked(self.base_url)
        try:
            parts = urlsplit(self.base_url)
            host = parts.hostname if parts.port != 0 else None
        except ValueError:
            host = None
        if not host or not self.base_url.startswith(("http://", "https://")):
            raise InvalidInput("--base-url", f"{shown!r:.100} is not an http:// or https:// address")
        if "@" in parts.netloc or "?" in self.base_url or "#" in self.base_url:
            remedy = f"give only the address, and the key in {KEY_VARIABLE}"
            raise InvalidInput("--base-url", f"{host} is given with a user name, a `?` or a `#`; {remedy}")
        if self.key is not None:
            sendable("key", self.key, form="in one line")

    @property
    def longest_s(self) -> float:
        """Seconds after which `ask` has ended."""
        return ATTEMPTS * (self.timeout_s + MOST_WAIT_S) + LONGEST_ANSWER * self.timeout_s

    def most_cost(self, messages: Sequence[Message], prices: Prices) -> float:
        """Return an upper limit of the cost of a request and its answer in USD: each byte is counted as a token."""
        longest = sum(len(each.text.encode()) + 16 for each in messages)
        return prices.of(longest, self.most_tokens)

    def ask(self, messages: Sequence[Message], *, until_s: float = math.inf) -> Answer:
        """Return the model's answer.

        If the service cannot be reached, is busy or has an internal error, the request is repeated after a pause.

        Args:
            until_s: time of `time.monotonic` after which the request is not repeated.

        Raises:
            ModelFailed: the service refuses the request, cannot be reached in `ATTEMPTS` attempts, or sends no usable
                answer.
        """
        reason, body = "", self._body(messages)
        for attempt in range(ATTEMPTS):
            wait_s = FIRST_WAIT_S * 2**attempt
            try:
                response = self._sent(body)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                reason = f"{self.base_url} cannot be reached: {self._without_key(str(error)) or type(error).__name__}"
            except httpx.HTTPError as error:
                cause = self._without_key(str(error)) or type(error).__name__
                reason = f"no complete answer arrived from the model's service: {cause}"
                raise ModelFailed(reason, charged=True) from error
            else:
                if response.status_code == httpx.codes.OK:
                    return self._read(response.content)
                reason = self._refusal(response)
                if "max_tokens" in body and "max_completion_tokens" in reason:
                    body["max_completion_tokens"] = body.pop("max_tokens")  # newer models of OpenAI refuse max_tokens
                    continue
                if response.status_code not in AGAIN:
                    break
                wait_s = min(retry_after_s(response) or wait_s, MOST_WAIT_S)
            if time.monotonic() + wait_s > until_s:
                reason = f"{reason}; the time of the run ends before another attempt"
                break
            self.sleep(wait_s)
        raise ModelFailed(f"the request to the model's service failed: {reason}", charged=False)

    def _sent(self, body: Mapping[str, Any]) -> httpx.Response:
        """Send a request and return the complete response, of at most `MOST_ANSWER_BYTES`."""
        ends_s = time.monotonic() + LONGEST_ANSWER * self.timeout_s
        content = bytearray()
        with (
            http_client(self.base_url, headers=self._headers, timeout=httpx.Timeout(self.timeout_s)) as client,
            client.stream("POST", self._url, json=body) as response,
        ):
            for part in response.iter_bytes():
                content += part
                if len(content) > MOST_ANSWER_BYTES:
                    raise ModelFailed(
                        f"the model's response is larger than {MOST_ANSWER_BYTES >> 20} MiB", charged=True
                    )
                if time.monotonic() > ends_s:
                    raise httpx.ReadTimeout(f"it was incomplete after {LONGEST_ANSWER * self.timeout_s:.0f} s")
            kept = {
                name: response.headers[name] for name in ("retry-after", "date", "location") if name in response.headers
            }
            return httpx.Response(response.status_code, headers=kept, content=bytes(content))

    def _refusal(self, response: httpx.Response) -> str:
        """Return the status and the beginning of a response that is no answer."""
        if response.is_redirect:
            return f"{response.status_code}: it redirects to {masked(self._without_key(response.headers['location']))}"
        text = self._without_key(response.content.decode(errors="replace")).strip()
        return f"{response.status_code}: {text[:300] or response.reason_phrase}"

    def _without_key(self, text: str) -> str:
        """Return a text without the key. Shorter keys are placeholders such as `none`, which sources may contain."""
        return text if self.key is None or len(self.key) < LEAST_KEY else text.replace(self.key, "…")

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

    def _read(self, content: bytes) -> Answer:
        try:
            body = json.loads(content)
            text, ended, names = (_of_openai if self.protocol == "openai" else _of_anthropic)(body)
            usage = body.get("usage")
            counts = [_count(usage.get(name)) if isinstance(usage, dict) else None for name in names]
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
            begins = self._without_key(content[:MOST_ANSWER_BYTES].decode(errors="replace")).strip()[:200]
            reason = "is empty" if not begins else f"begins with {begins!r}"
            raise ModelFailed(
                f"the model's response does not follow the {self.protocol} protocol: it {reason}", charged=True
            ) from error
        return Answer(text=self._without_key(_storable(text)), tokens_in=counts[0], tokens_out=counts[1], ended=ended)


def _of_openai(body: Any) -> tuple[str, str, tuple[str, str]]:
    """Return the text of a response, the reason why it ended, and the names of the token counts."""
    choice = body["choices"][0]
    message = choice["message"]
    text = _joined(message.get("content")) or _joined(message.get("refusal"))
    return text, str(choice.get("finish_reason") or "")[:40], ("prompt_tokens", "completion_tokens")


def _of_anthropic(body: Any) -> tuple[str, str, tuple[str, str]]:
    return _joined(body["content"]), str(body.get("stop_reason") or "")[:40], ("input_tokens", "output_tokens")


def _joined(content: Any) -> str:
    """Return the text of a message, which is a string or a list of parts. Parts without text are skipped."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part["text"] for part in content if isinstance(part.get("text"), str))


def _storable(text: str) -> str:
    """Return the beginning of a text without NUL and halves of surrogate pairs, which no database stores."""
    return text[:MOST_TEXT].replace("\0", "").encode("utf-8", "replace").decode()


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
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS else None
