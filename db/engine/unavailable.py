"""That a database cannot be used now; apart from what uses one, so that a command can name it without loading that."""

from evo.errors import EvoError


class StoreUnavailable(EvoError, OSError):
    """The database cannot be read or written now; the message names it and the way out.

    Args:
        public: what callers who may not know where the database is are answered instead.

    Attributes:
        public: the same; always without host, user, path and name.
    """

    def __init__(self, message: str, *, public: str = "try again later") -> None:
        super().__init__(message)
        self.public = f"the service cannot use its database now: {public}"
