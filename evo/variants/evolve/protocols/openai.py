"""Requests to OpenAI's chat completions API, and its responses."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evo.variants.evolve.bounded import BoundedClient
from evo.variants.evolve.message import Message
from evo.variants.evolve.protocols.response import NO_KEY, SCHEMA_NAME, Response, joined

if TYPE_CHECKING:
    from evo.variants.evolve.chat import Chat


def create(chat: "Chat", messages: Sequence[Message], http: BoundedClient) -> Any:
    """Send a request, and return the response of the SDK."""
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


def read(completion: Any) -> Response:
    """Return the content of a parsed response."""
    choice, usage = completion.choices[0], completion.usage
    return Response(
        text=joined(choice.message.content) or joined(choice.message.refusal),
        ended=getattr(choice, "finish_reason", None),
        tokens_in=getattr(usage, "prompt_tokens", None),
        tokens_out=getattr(usage, "completion_tokens", None),
    )
