"""Requests to a language model, over OpenAI's or Anthropic's protocol."""

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from evo.errors import InvalidInput
from evo.text.secrets import masked, sendable
from evo.variants.evolve.answer import SCHEMA
from evo.variants.evolve.dialect import Dialect
from evo.variants.evolve.message import LONGEST_ANSWER, Answer, Message, ModelFailed, Prices
from evo.variants.evolve.provider import BASES, KEY_VARIABLE, KEYS, Protocol, require, without_key

ATTEMPTS = 5
MOST_WAIT_S = 120.0
FIRST_WAIT_S = 1.0
AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})

SCHEMA_TOKENS = 1024
"""Maximum number of tokens that a provider adds to a request to explain the schema to its model."""


@dataclass(frozen=True, kw_only=True)
class Chat:
    """Sends requests to one model of a provider.

    Attributes:
        base_url: address of the API, ending in its version, e.g. ``http://127.0.0.1:11434/v1``.
        key: key that is sent with each request; None if no key is sent.
        schema: JSON schema of the answers; None if answers may have any form.
        most_tokens: maximum length of an answer in tokens.
        timeout_s: a request fails if no byte of the answer arrives for this number of seconds, or if the answer is
            incomplete after `LONGEST_ANSWER` times this number of seconds.
        sleep: function that waits; tests replace it.
        dialect: request options that the provider supports.
    """

    model: str
    protocol: Protocol = "openai"
    base_url: str
    key: str | None = None
    schema: Mapping[str, Any] | None = None
    most_tokens: int = 8192
    timeout_s: float = 300.0
    sleep: Callable[[float], None] = time.sleep
    dialect: Dialect = field(default_factory=Dialect, init=False, compare=False)

    def __post_init__(self) -> None:
        shown = masked(self.base_url)
        try:
            parts = urlsplit(self.base_url)
            host = parts.hostname if parts.port != 0 else None
        except ValueError:
            host = None
        if not host or not self.base_url.startswith(("http://", "https://")):
            raise InvalidInput("--base-url", f"{shown!r:.100} must be an http:// or https:// address")
        if "@" in parts.netloc or "?" in self.base_url or "#" in self.base_url:
            remedy = f"give only the address, and the key in {KEY_VARIABLE}"
            raise InvalidInput("--base-url", f"{host} must be written without a user name, `?` and `#`; {remedy}")
        if self.key is not None:
            sendable("key", self.key, form="in one line")

    @property
    def longest_s(self) -> float:
        """Maximum duration of `ask` in seconds."""
        return ATTEMPTS * (self.timeout_s + MOST_WAIT_S) + LONGEST_ANSWER * self.timeout_s

    @property
    def schema_sent(self) -> Mapping[str, Any] | None:
        """JSON schema of answers in the next request; None if none is set, or if the provider refused it."""
        return self.schema if self.dialect.schema else None

    def most_cost(self, messages: Sequence[Message], prices: Prices) -> float:
        """Return an upper limit of the cost of a request and its answer in USD: each byte is counted as a token."""
        longest = sum(len(each.text.encode()) + 16 for each in messages)
        if self.schema_sent is not None:
            longest += len(json.dumps(self.schema_sent)) + SCHEMA_TOKENS
        return prices.of(longest, self.most_tokens)

    def ask(self, messages: Sequence[Message], *, until_s: float = math.inf) -> Answer:
        """Return the model's answer.

        If the provider cannot be reached, is busy or has an internal error, the request is retried after a pause.

        Args:
            until_s: time of `time.monotonic` after which the request is not retried.

        Raises:
            SchemaRefused: the provider refuses the schema. The next call sends no schema.
            ModelFailed: the provider refuses the request, cannot be reached in `ATTEMPTS` attempts or before `until_s`,
                or sends no usable answer.
            SdkMissing: the SDK of the protocol is not installed.
            InvalidInput: the proxy or the certificates in the environment variables cannot be used.
        """
        require(self.protocol)
        from evo.variants.evolve.sdk import NotSent, Refused, send

        reason = ""
        for attempt in range(ATTEMPTS):
            wait_s = FIRST_WAIT_S * 2**attempt
            try:
                return send(self, messages)
            except NotSent as error:
                reason = f"{self.base_url} cannot be reached: {error}"
            except Refused as error:
                reason = str(error)
                if self.dialect.adapts(error, with_schema=self.schema_sent is not None):
                    continue
                if error.status not in AGAIN:
                    break
                wait_s = min(error.again_s or wait_s, MOST_WAIT_S)
            if time.monotonic() + wait_s > until_s:
                reason = f"{reason}; the time limit of the run leaves no time for another attempt"
                break
            self.sleep(wait_s)
        raise ModelFailed(f"the request to the provider failed: {reason}", charged=False)

    def without_key(self, text: str) -> str:
        """Return a text with ``…`` in place of the API key."""
        return without_key(text, self.key)


def chat_of(provider: Protocol, model: str, base_url: str | None, *, most_tokens: int = 8192) -> Chat:
    """Return a `Chat` that requests variants from a model.

    The key is read from an environment variable: `KEY_VARIABLE` if `base_url` is given, else the provider's variable
    in `KEYS`. A provider's key is thus never sent to a different address.

    Args:
        base_url: address of the API; None for the provider's own address.
        most_tokens: maximum length of an answer in tokens.

    Raises:
        InvalidInput: `base_url` is None and the environment contains no key for the provider, or `base_url` or the key
            is not valid.
        SdkMissing: the SDK of the provider is not installed.
    """
    key = os.environ.get(KEY_VARIABLE if base_url is not None else KEYS[provider]) or None
    if base_url is None and key is None:
        remedy = "export it, or name another provider with --base-url"
        raise InvalidInput(KEYS[provider], f"is not set, and {BASES[provider]} needs a key; {remedy}")
    require(provider)
    return Chat(
        model=model,
        protocol=provider,
        base_url=base_url or BASES[provider],
        key=key,
        schema=SCHEMA,
        most_tokens=most_tokens,
    )
