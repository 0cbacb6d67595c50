"""Location of a database: the path of an SQLite file, or the URL of a PostgreSQL database."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Union

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from evo.errors import InvalidInput
from evo.text.limits import refuse_foreign_url
from evo.text.shell import with_home

SCHEMES = ("postgresql://", "postgres://", "postgresql+psycopg://")


@dataclass(frozen=True)
class Location:
    """Location of a database. Its string form hides all passwords in the URL, including those in URL parameters.

    Attributes:
        file: path of an SQLite file, or None for PostgreSQL.
        server: URL of a PostgreSQL database, or None for SQLite.
    """

    file: Path | None = None
    server: URL | None = field(default=None, repr=False)

    @classmethod
    def of(cls, given: Union[str, Path, "Location"]) -> "Location":
        """Return the location that a user specified as a path, or as a URL that begins with ``postgresql://``.

        Raises:
            InvalidInput: the text is the URL of an unsupported kind of database, or an invalid PostgreSQL URL.
        """
        if isinstance(given, Location):
            return given
        refuse_foreign_url(str(given), "db")
        if isinstance(given, Path) or not given.startswith(SCHEMES):
            return cls(file=with_home(given).absolute())
        try:
            url = make_url(given).set(drivername="postgresql+psycopg")
        except (ArgumentError, ValueError):
            raise InvalidInput("db", "this is not a database URL; write postgresql://USER@HOST:5432/NAME") from None
        if not url.database:
            raise InvalidInput("db", "the URL names no database; write postgresql://USER@HOST:5432/NAME")
        return cls(server=url)

    @property
    def shared(self) -> bool:
        """True if several service processes can share the database (PostgreSQL)."""
        return self.server is not None

    @property
    def folder(self) -> Path | None:
        """Folder that contains the SQLite file, or None for PostgreSQL."""
        return None if self.file is None else self.file.parent

    def __str__(self) -> str:
        if self.server is None:
            return str(self.file)
        shown = {name: "***" if "password" in name else value for name, value in self.server.query.items()}
        return self.server.set(drivername="postgresql", query=shown).render_as_string(hide_password=True)
