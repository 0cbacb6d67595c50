"""Locations of the local database, the service and their files on this machine."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from evo.errors import EvoError, InvalidInput, NotFound
from evo.text.limits import refuse_foreign_url
from evo.text.secrets import masked
from evo.text.shell import quoted, with_home

if TYPE_CHECKING:
    from evo.cli.service.standby import Standby

SQLITE = b"SQLite format 3\0"
"""First bytes of every SQLite file. An empty file may become a database."""


@dataclass(frozen=True, kw_only=True)
class ServiceRef:
    """The service that a command uses.

    Attributes:
        url: address of the service; None for the service of the local database.
        token: token for the service; None if none was given.
        database: path of the local database; None for the default database.
        standby: processes that were started in advance for a local service and worker; None if there are none.
    """

    url: str | None = None
    token: str | None = None
    database: Path | None = None
    standby: "Standby | None" = field(default=None, compare=False)

    @property
    def options(self) -> str:
        """Quoted options that make another command use the same service.

        They start with a space and omit passwords. Empty if the service is that of the default database.
        """
        if self.url is not None:
            return f" --url {quoted(masked(self.url))}"
        return "" if self.database is None else f" --db {quoted(str(self.database))}"


def data_folder() -> Path:
    """Return the user's data directory on this system."""
    from platformdirs import user_data_path

    return user_data_path("kernel-evo", appauthor=False)


def _checked_path(database: Path) -> Path:
    """Return the path of a database. Refuse a file that is clearly not a database.

    Raises:
        InvalidInput: the path names something other than a file, e.g. a folder, a socket or a device.
        EvoError: the file is not a kernel-evo database.
    """
    if database.exists() and not database.is_file():
        what = "a folder" if database.is_dir() else "a special file"
        raise InvalidInput("--db", f"{database} is {what}; use the path of an SQLite file, e.g. evo.db")
    try:
        with database.open("rb") as file:
            begins = file.read(len(SQLITE))
    except OSError:
        return database  # the file is missing or unreadable; opening it reports the reason
    if begins not in (b"", SQLITE):
        raise EvoError(f"{database} is not a kernel-evo database; move the file away, or use another --db")
    return database


@dataclass(frozen=True)
class LocalDatabase:
    """A local database and the files that belong to it."""

    database: Path

    @classmethod
    def of(cls, database: Path | None) -> "LocalDatabase":
        """Return the database that the user named, or the default database in the user's data directory.

        Raises:
            InvalidInput: the user gave a URL, or the path of something that is not a file.
            EvoError: the file is not a kernel-evo database.
        """
        scheme = database.parts[0] if database is not None and database.parts else ""
        if scheme in {"postgresql:", "postgres:", "postgresql+psycopg:"}:
            remedy = "start `kernel-evo serve --db …`, and pass the address of that service to this command with --url"
            raise InvalidInput("--db", f"only a service opens a PostgreSQL database; {remedy}")
        if scheme in {"http:", "https:"}:
            raise InvalidInput("--db", "is the address of a service; pass it with --url")
        if database is not None:
            refuse_foreign_url(str(database), "--db")
            return cls(_checked_path(with_home(database).absolute()))
        return cls(data_folder() / "kernel-evo.db")

    @classmethod
    def to_use(cls, database: Path | None) -> "LocalDatabase":
        """Return the database for a command that creates no database. Only the default database may be missing.

        Raises:
            NotFound: the user named a database that does not exist.
        """
        location = cls.of(database)
        if database is not None and not location.database.exists():
            raise NotFound(f"no database at {location.database}; check --db; `search` and `serve` create new ones")
        return location

    @classmethod
    def to_begin(cls, database: Path | None) -> "LocalDatabase":
        """Return the database for a command that may create it, in the default folder or in an existing folder.

        Raises:
            NotFound: the user named a database in a folder that does not exist.
        """
        location = cls.of(database)
        if database is not None and not location.database.parent.is_dir():
            folder = location.database.parent
            raise NotFound(f"there is no folder {folder} for the database; create it first, or use another --db")
        return location

    @property
    def worker_data(self) -> Path:
        """Folder of this database's worker: its lock, and results that it has not delivered yet."""
        return self.database.with_name(f"{self.database.name}.worker")

    def log(self, name: str) -> Path:
        """Return the path of the log of the child process `name`."""
        return self.database.with_name(f"{self.database.name}.{name}.log")
