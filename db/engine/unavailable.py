"""Error for an unusable database.

The class has a separate module, so that commands can catch it without importing SQLAlchemy.
"""

from evo.errors import EvoError

OTHER_TABLES = (
    "its tables are not those of this version, because another version upgraded it or a backup is being restored; wait "
    "until the backup is restored, or end this service and start the version that upgraded the database"
)
"""Description and remedy if a table or column is missing."""


class StoreUnavailable(EvoError, OSError):
    """Raised if the database cannot be read or written now. The message names the database and a remedy.

    Args:
        public: reason and remedy for remote callers, who may not see the location of the database.

    Attributes:
        public: message for remote callers, without host, user, path or database name.
    """

    code = "database-unavailable"

    def __init__(self, message: str, *, public: str = "try again later") -> None:
        super().__init__(message)
        self.public = f"the service cannot use its database at present: {public}"
