"""That a database cannot be used now; apart from what uses one, so that a command can name it without loading that."""

from evo.errors import EvoError


class StoreUnavailable(EvoError, OSError):
    """The database cannot be read or written now; the message names it and the way out."""
