"""Base classes of the errors that this project raises on purpose. Each subclass also inherits the matching builtin."""


class EvoError(Exception):
    """An error the caller can act on: the message says what is wrong and how to correct it."""


class InvalidInput(EvoError, ValueError):
    """A value given by the user or by a client is not acceptable.

    Args:
        field: name of the offending field as the user wrote it, e.g. ``problem.S``.
        reason: what is wrong, and what would be accepted.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class NotFound(EvoError, LookupError):
    """A named thing does not exist; the message lists the names that do."""


class Conflict(EvoError, RuntimeError):
    """The request does not fit the current state; the message names the state and what to do."""


class CannotJudge(EvoError):
    """No config can be judged because the family's reference.py fails or breaks its contract."""
