"""The schema's version: every database is brought up to date when it is opened, and a newer one is left alone."""

import sqlite3
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, NullPool, create_engine, inspect

from evo.errors import EvoError

MIGRATIONS = Path(__file__).parent / "migrations"


def configuration() -> Config:
    """Alembic's settings, without a file: the folder of the migrations is all it needs."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    return config


def refuse_foreign(path: Path) -> None:
    """Look into a file that exists, without writing to it, before it is opened for good.

    Raises:
        EvoError: another program keeps its tables there.
    """
    if not path.exists():
        return
    read_only = f"{path.as_uri()}?mode=ro"
    engine = create_engine("sqlite://", creator=lambda: sqlite3.connect(read_only, uri=True), poolclass=NullPool)
    with engine.connect() as connection:
        tables = inspect(connection).get_table_names()
    if tables and "alembic_version" not in tables:
        raise EvoError(
            f"database {path}: it is not a kernel-evo database (it holds {', '.join(tables[:3])}): "
            "nothing was written to it; use another --db"
        )


def upgrade(connection: Connection, path: Path) -> None:
    """Run the migrations this database lacks, in the connection's transaction.

    Raises:
        EvoError: the database was written by a version that knows more migrations than this one.
    """
    config = configuration()
    scripts = ScriptDirectory.from_config(config)
    present, head = MigrationContext.configure(connection).get_current_revision(), scripts.get_current_head()
    if present == head:
        return
    if present not in {None, *(script.revision for script in scripts.walk_revisions())}:
        raise EvoError(
            f"database {path}: its schema {present!r} is newer than this kernel-evo, which knows up to {head!r}: "
            "upgrade kernel-evo, or use another --db"
        )
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
