"""Creates, checks and upgrades the schema of a database. A database with a newer schema is refused."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Column, Connection, MetaData, PrimaryKeyConstraint, String, Table, insert, inspect, select

from db.engine.location import Location
from db.engine.unavailable import StoreUnavailable
from db.models import Base
from evo.errors import EvoError

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATIONS = Path(__file__).parents[1] / "migrations"

VERSION = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""Alembic's table with the id of the last applied migration. Alembic itself is imported only for migrations, because
its import takes a tenth of a second."""


def configuration() -> "Config":
    """Return Alembic's settings. They are built in code, so no alembic.ini is needed."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    return config


@cache
def revisions() -> list[str]:
    """Return the ids of all migrations of this version, in order. The name of a migration's file begins with its id."""
    return sorted(file.name.partition("_")[0] for file in (MIGRATIONS / "versions").glob("[0-9]*.py"))


def head() -> str:
    """Return the id of the latest migration of this version."""
    return revisions()[-1]


def _present(connection: Connection) -> str | None:
    """Return the id of the last migration that was applied to a database. None if there was none."""
    return connection.scalar(select(VERSION.c.version_num)) if inspect(connection).has_table(VERSION.name) else None


def check_schema(connection: Connection) -> None:
    """Check that the database has the schema of this version.

    Raises:
        StoreUnavailable: a different version of kernel-evo has changed the schema since the database was opened.
    """
    present = _present(connection)
    if present != head():
        raise StoreUnavailable(
            f"the database has the schema {present!r}, but this process needs {head()!r}; restart the service with the "
            "version of kernel-evo that changed the schema"
        )


def prepare(connection: Connection, location: Location) -> None:
    """Create the schema of an empty database, or upgrade the schema of an older version, in one transaction.

    Raises:
        EvoError: the database was written by a newer version of kernel-evo.
    """
    present = _present(connection)
    if present == head():
        return
    if present is None and not inspect(connection).get_table_names():  # three times as fast as running all migrations
        Base.metadata.create_all(connection)
        VERSION.create(connection)
        connection.execute(insert(VERSION).values(version_num=head()))
        return
    if present not in {None, *revisions()}:
        raise EvoError(
            f"database {location}: its schema {present!r} is newer than this kernel-evo, which knows up to {head()!r}; "
            "upgrade kernel-evo, or use another --db"
        )
    migrate(connection)


def migrate(connection: Connection) -> None:
    """Apply all missing migrations in the transaction of the connection."""
    from alembic import command

    config = configuration()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
