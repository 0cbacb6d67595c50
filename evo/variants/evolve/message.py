"""Messages to a language model, its answers, and their costs."""

from dataclasses import dataclass
from typing import Literal

from evo.errors import EvoError

LENGTH = {"length", "max_tokens"}
"""Stop reasons, in the two protocols, of an answer that was cut off at the maximum number of tokens."""


LONGEST_ANSWER = 4
"""An answer must be complete within this multiple of the timeout of a request."""


class ModelFailed(EvoError, RuntimeError):
    """Raised if the provider gave no usable answer. `charged` is True if the request may cost money."""

    def __init__(self, reason: str, *, charged: bool) -> None:
        super().__init__(reason)
        self.charged = charged


class SchemaRefused(ModelFailed):
    """Raised if the provider accepts no JSON schema for answers. Later requests are sent without a schema."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, charged=False)


@dataclass(frozen=True, kw_only=True)
class Message:
    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A model's answer.

    Attributes:
        tokens_in, tokens_out: token counts of the request and the answer; None if the provider did not state them.
        ended: reason why the model stopped, as named by the provider; empty if unknown.
    """

    text: str
    tokens_in: int | None
    tokens_out: int | None
    ended: str = ""


@dataclass(frozen=True, kw_only=True)
class Prices:
    """Prices of input and output tokens, in USD per million tokens."""

    tokens_in: float = 0.0
    tokens_out: float = 0.0

    def of(self, tokens_in: int, tokens_out: int) -> float:
        """Return the cost of a request in USD."""
        return (self.tokens_in * tokens_in + self.tokens_out * tokens_out) / 1e6
