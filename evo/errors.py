"""Base classes of the errors that kernel-evo raises. Most classes also inherit from the matching builtin class."""

from typing import ClassVar


class EvoError(Exception):
    """An error that the user can correct.

    Args:
        message: what is wrong, and how to correct it.
        request: hint that names a REST request, e.g. ``GET /searches lists them``. It is appended to the message, but
            not to `plain`, which web pages show.

    Attributes:
        code: machine-readable kind of the error.
        plain: the message without the hint.
    """

    code: ClassVar[str] = "failed"

    def __init__(self, message: str = "", *, request: str = "") -> None:
        super().__init__(f"{message}: {request}" if request else message)
        self.plain = message


class InvalidInput(EvoError, ValueError):
    """A value from the user or a client is invalid.

    Args:
        field: name of the field as the user wrote it, e.g. ``problem.S``.
        reason: what is wrong, and what would be accepted.
    """

    code = "invalid-input"

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class NotFound(EvoError, LookupError):
    """The named item does not exist. If possible, the message lists the existing names."""

    code = "not-found"


class MissingItem(NotFound):
    """No item with this number exists.

    Args:
        noun: kind of the item, e.g. ``search``.
        key: the item's number.
    """

    def __init__(self, noun: str, key: object, *, request: str = "") -> None:
        super().__init__(f"there is no {noun} {key}", request=request)
        self.noun = noun
        self.key = str(key)


class Conflict(EvoError, RuntimeError):
    """The request is not possible in the current state. The message describes the state and the remedy."""

    code = "conflict"


class CannotJudge(EvoError):
    """No kernel can be checked because the family's reference.py fails or breaks its contract."""


class RenderError(EvoError, ValueError):
    """A template could not be rendered. The message contains the file, the line and the error."""
