"""Sends requests to a language model with the SDKs of OpenAI and Anthropic. Requires the extra ``evolve``."""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import httpx2

from evo.client.route import routed
from evo.client.transport import retry_after_s
from evo.text.secrets import masked
from evo.variants.evolve.bounded import BoundedClient
from evo.variants.evolve.message import Answer, Message, ModelFailed

if TYPE_CHECKING:
    from evo.variants.evolve.chat import Chat

NO_KEY = "none"
"""Key that the SDKs get if the service needs none. It is not sent, but keeps the SDKs from using another key."""

MOST_TEXT = 900_000
"""Maximum number of characters of an answer. The rest is dropped, because the service stores at most a million."""

MOST_TOKENS = 1_000_000_000
"""Largest plausible token count. A larger count in a response is ignored, because it is wrong."""

SCHEMA_NAME = "variant"


class Refused(Exception):
    """The service answered with a status other than 200.

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
            super().__init__(f"{self.status}: it redirects to {place}")
        else:
            super().__init__(f"{self.status}: {self.text[:300] or response.reason_phrase}")


class NotSent(Exception):
    """The service could not be reached, so it did not receive the request."""


def send(chat: "Chat", messages: Sequence[Message]) -> Answer:
    """Send one request and return the model's answer.

    Raises:
        Refused: the service refuses the request, is busy, or has an internal error.
        NotSent: the service cannot be reached.
        ModelFailed: the response is incomplete, too large, or does not follow the protocol.
        InvalidInput: the proxy or the certificates in the environment variables cannot be used.
    """
    sdk = import_module(chat.protocol)
    create = _openai if chat.protocol == "openai" else _anthropic
    with routed(
        BoundedClient, chat.base_url, invalid_url=httpx2.InvalidURL, key=chat.key, timeout_s=chat.timeout_s
    ) as http:
        try:
            response = create(chat, messages, http)
        except sdk.APIStatusError as error:
            raise Refused(chat, error.response) from None
        except sdk.APIConnectionError as error:
            raise _unanswered(chat, error.__cause__ or error) from error
    return _read(chat, response)


def _openai(chat: "Chat", messages: Sequence[Message], http: BoundedClient) -> Any:
    from openai import OpenAI, omit

    wanted = chat.schema_sent
    schema = None if wanted is None else {"name": SCHEMA_NAME, "strict": True, "schema": wanted}
    client = OpenAI(
        api_key=chat.key or NO_KEY,
        base_url=chat.base_url,
        timeout=chat.timeout_s,
        max_retries=0,
        http_client=http,
    )
    return client.chat.completions.with_raw_response.create(
        model=chat.model,
        messages=[{"role": each.role, "content": each.text} for each in messages],
        response_format=omit if schema is None else {"type": "json_schema", "json_schema": schema},
        **{chat.dialect.most_tokens: chat.most_tokens},
    )


def _anthropic(chat: "Chat", messages: Sequence[Message], http: BoundedClient) -> Any:
    from anthropic import Anthropic, omit

    schema = chat.schema_sent
    system = "\n\n".join(each.text for each in messages if each.role == "system")
    client = Anthropic(
        api_key=chat.key or NO_KEY,
        base_url=chat.base_url.rstrip("/").removesuffix("/v1"),  # the SDK adds it
        timeout=chat.timeout_s,
        max_retries=0,
        http_client=http,
        open_telemetry=False,
    )
    return client.messages.with_raw_response.create(
        model=chat.model,
        max_tokens=chat.most_tokens,
        system=system or omit,
        messages=[{"role": each.role, "content": each.text} for each in messages if each.role != "system"],
        output_config=omit if schema is None else {"format": {"type": "json_schema", "schema": schema}},
    )


def _unanswered(chat: "Chat", cause: BaseException) -> Exception:
    """Return the error for a request that got no complete response."""
    if isinstance(cause, ModelFailed):
        return cause
    reason = chat.without_key(str(cause)) or type(cause).__name__
    if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
        return NotSent(reason)
    return ModelFailed(f"no complete answer arrived from the model's service: {reason}", charged=True)


def _read(chat: "Chat", response: Any) -> Answer:
    """Return the answer in a response. The SDKs do not check types, so any value may have the wrong type."""
    try:
        parsed = response.parse()
        text, ended, counts = _of_openai(parsed) if chat.protocol == "openai" else _of_anthropic(parsed)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        begins = chat.without_key(response.http_response.content.decode(errors="replace")).strip()[:200]
        reason = "is empty" if not begins else f"begins with {begins!r}"
        raise ModelFailed(
            f"the model's response does not follow the {chat.protocol} protocol: it {reason}", charged=True
        ) from error
    tokens_in, tokens_out = map(_count, counts)
    ended = str(ended or "")[:40]
    return Answer(text=chat.without_key(_storable(text)), tokens_in=tokens_in, tokens_out=tokens_out, ended=ended)


def _of_openai(completion: Any) -> tuple[str, Any, tuple[Any, Any]]:
    """Return the text of a response, the reason why it ended, and the numbers of tokens."""
    choice, usage = completion.choices[0], completion.usage
    text = _joined(choice.message.content) or _joined(choice.message.refusal)
    counts = getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None)
    return text, getattr(choice, "finish_reason", None), counts


def _of_anthropic(message: Any) -> tuple[str, Any, tuple[Any, Any]]:
    usage = getattr(message, "usage", None)
    counts = getattr(usage, "input_tokens", None), getattr(usage, "output_tokens", None)
    return _joined(message.content), getattr(message, "stop_reason", None), counts


def _joined(content: Any) -> str:
    """Return the text of a message, which is a string or a list of parts. Parts without text are skipped."""
    if content is None or isinstance(content, str):
        return content or ""
    texts = (part.get("text") if isinstance(part, dict) else getattr(part, "text", None) for part in content)
    return "".join(text for text in texts if isinstance(text, str))


def _storable(text: str) -> str:
    """Return the first `MOST_TEXT` characters, without NUL and unpaired surrogates, which databases cannot store."""
    return text[:MOST_TEXT].replace("\0", "").encode("utf-8", "replace").decode()


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS else None
