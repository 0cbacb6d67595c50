"""The root of every error this project raises on purpose; a leaf also inherits the builtin it resembles."""


class EvoError(Exception):
    """Something the caller can understand and act on: the message says what is wrong and the way out."""


class InvalidInput(EvoError, ValueError):
    """A value from outside is not acceptable.

    Args:
        field: the name of the offending field as the user wrote it, e.g. ``problem.S``.
        reason: what is wrong and what would be accepted.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class NotFound(EvoError, LookupError):
    """A named thing does not exist; the message lists what does."""


class Conflict(EvoError, RuntimeError):
    """The request does not fit the present state; the message says which state and what to do."""


class CannotJudge(EvoError):
    """No config can be judged, because the family's own reference.py fails or breaks its contract."""
