"""What a config must satisfy, and why."""

from dataclasses import dataclass

from evo.expression import Expression


@dataclass(frozen=True, kw_only=True)
class Constraint:
    """A config is valid only if the expression is true.

    Attributes:
        because: the reason, a sentence for people.
    """

    expression: Expression
    because: str = ""

    def __str__(self) -> str:
        return f"`{self.expression.text}`" + (f" ({self.because})" if self.because else "")
