"""Request options that a provider supports, as learned from the errors with which it refuses requests."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from evo.variants.evolve.message import SchemaRefused

if TYPE_CHECKING:
    from evo.variants.evolve.sdk import Refused

_SCHEMA = re.compile(r"response.?format|output.?(config|format)|json.?schema|structured.?output|\bschema|grammar", re.I)
"""Matches words in the errors of providers that accept no schema."""


@dataclass(kw_only=True)
class Dialect:
    """Request options that a provider supports.

    Attributes:
        schema: False if the provider refused a schema for answers.
        most_tokens: name of the parameter with the maximum length of an answer.
    """

    schema: bool = True
    most_tokens: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"

    def adapts(self, refused: "Refused", *, with_schema: bool) -> bool:
        """Adapt to a refused request. Return True if the request can be sent again, because it now differs.

        If the provider accepts only ``max_completion_tokens``, this name replaces ``max_tokens``. The result is False
        if the provider refused the request for another reason.

        Args:
            with_schema: True if the refused request contained a schema for answers.

        Raises:
            SchemaRefused: the provider refused the schema. Later requests are sent without it.
        """
        if refused.status not in (400, 422):
            return False
        if self.most_tokens == "max_tokens" and "max_completion_tokens" in refused.text:
            self.most_tokens = "max_completion_tokens"  # newer models of OpenAI refuse max_tokens
            return True
        if with_schema and _SCHEMA.search(refused.text):
            self.schema = False
            raise SchemaRefused(str(refused))
        return False
