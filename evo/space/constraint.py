"""Constraints of a space, with their reasons."""

from dataclasses import dataclass

from evo.space.expression import Expression


@dataclass(frozen=True, kw_only=True)
class Constraint:
    """A condition on configs: a config is valid only if the expression is true.

    Attributes:
        because: the reason, a sentence for users.
    """

    expression: Expression
    because: str = ""

    def __str__(self) -> str:
        return f"`{self.expression.text}`" + (f" ({self.because})" if self.because else "")
