"""Requests to Anthropic's Messages API, and its responses."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evo.variants.evolve.bounded import BoundedClient
from evo.variants.evolve.message import Message
from evo.variants.evolve.protocols.response import NO_KEY, Response, joined

if TYPE_CHECKING:
    from evo.variants.evolve.chat import Chat


def create(chat: "Chat", messages: Sequence[Message], http: BoundedClient) -> Any:
    """Send a request, and return the response of the SDK."""
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


def read(message: Any) -> Response:
    """Return the content of a parsed response."""
    usage = getattr(message, "usage", None)
    return Response(
        text=joined(message.content),
        ended=getattr(message, "stop_reason", None),
        tokens_in=getattr(usage, "input_tokens", None),
        tokens_out=getattr(usage, "output_tokens", None),
    )
