"""Creates, checks and upgrades the schema of a database. A database with a newer schema is refused."""

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

from db.engine.location import Location
from db.engine.unavailable import StoreUnavailable
from db.models import Base
from evo.errors import EvoError

MIGRATIONS = Path(__file__).parents[1] / "migrations"


def configuration() -> Config:
    """Return Alembic's settings. They are built in code, so no alembic.ini is needed."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    return config


@cache
def head() -> str | None:
    """Return the id of the latest migration of this version."""
    return ScriptDirectory.from_config(configuration()).get_current_head()


def check_schema(connection: Connection) -> None:
    """Check that the database has the schema of this version.

    Raises:
        StoreUnavailable: a different version of kernel-evo has changed the schema since the database was opened.
    """
    present = MigrationContext.configure(connection).get_current_revision()
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
    context = MigrationContext.configure(connection)
    present = context.get_current_revision()
    if present == head():
        return
    scripts = ScriptDirectory.from_config(configuration())
    if present is None and not inspect(connection).get_table_names():  # takes a third of the time of all migrations
        Base.metadata.create_all(connection)
        context.stamp(scripts, "head")
        return
    if present not in {None, *(script.revision for script in scripts.walk_revisions())}:
        raise EvoError(
            f"database {location}: its schema {present!r} is newer than this kernel-evo, which knows up to {head()!r}; "
            "upgrade kernel-evo, or use another --db"
        )
    migrate(connection)


def migrate(connection: Connection) -> None:
    """Apply all missing migrations in the transaction of the connection."""
    config = configuration()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
