"""The schema's version: every database is brought up to date when it is opened, and a newer one is left alone."""

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from db.engine.location import Location
from db.engine.unavailable import StoreUnavailable
from evo.errors import EvoError

MIGRATIONS = Path(__file__).parents[1] / "migrations"


def configuration() -> Config:
    """Alembic's settings, without a file: the folder of the migrations is all it needs."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    return config


@cache
def head() -> str | None:
    """The latest migration this version knows."""
    return ScriptDirectory.from_config(configuration()).get_current_head()


def check_schema(connection: Connection) -> None:
    """Nothing, while the schema is the one that this process was written for.

    Raises:
        StoreUnavailable: another version has changed it meanwhile.
    """
    present = MigrationContext.configure(connection).get_current_revision()
    if present != head():
        raise StoreUnavailable(
            f"the database has the schema {present!r}, and this process knows {head()!r}: start it again with the "
            "version that changed it"
        )


def upgrade(connection: Connection, location: Location) -> None:
    """Run the migrations this database lacks, in the connection's transaction.

    Raises:
        EvoError: the database was written by a version that knows more migrations than this one.
    """
    present = MigrationContext.configure(connection).get_current_revision()
    if present == head():
        return
    config = configuration()
    scripts = ScriptDirectory.from_config(config)
    if present not in {None, *(script.revision for script in scripts.walk_revisions())}:
        raise EvoError(
            f"database {location}: its schema {present!r} is newer than this kernel-evo, which knows up to {head()!r}: "
            "upgrade kernel-evo, or use another --db"
        )
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
