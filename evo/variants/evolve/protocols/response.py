"""Constants of requests and the type of responses, shared by all protocols."""

from dataclasses import dataclass
from typing import Any

NO_KEY = "none"
"""Key that the SDKs get if the provider needs none. It is not sent, but keeps the SDKs from using another key."""

SCHEMA_NAME = "variant"
"""Name of the schema of answers."""


@dataclass(frozen=True, kw_only=True)
class Response:
    """A model's response. The SDKs do not check types, so `ended` and the token counts may be any value.

    Attributes:
        ended: reason why the response ended.
        tokens_in, tokens_out: numbers of tokens of the request and the response.
    """

    text: str
    ended: Any
    tokens_in: Any
    tokens_out: Any


def joined(content: Any) -> str:
    """Return the text of a message, which is a string or a list of parts. Parts without text are skipped."""
    if content is None or isinstance(content, str):
        return content or ""
    texts = (part.get("text") if isinstance(part, dict) else getattr(part, "text", None) for part in content)
    return "".join(text for text in texts if isinstance(text, str))
