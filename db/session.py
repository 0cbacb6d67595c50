"""One database file: opening it, and the transactions that the edge owns."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DatabaseError, DBAPIError
from sqlalchemy.orm import Session, sessionmaker

from db.schema import refuse_foreign, upgrade
from evo.errors import EvoError

BUSY_TIMEOUT_S = 5.0
"""How long a statement waits for another process that writes to the same file."""

_WRITES = {"begin": "IMMEDIATE"}


class StoreUnavailable(EvoError, OSError):
    """The database cannot be read or written now; the message names the file and the way out."""


class Database:
    """An open database. Repositories get a `Session` from it and never commit: the block that opened it does.

    Safe to share between threads. Writers queue on a lock of this process, which is fairer and quicker than SQLite's
    own polling; readers never wait for them (write-ahead log).
    """

    def __init__(self, path: Path, engine: Engine) -> None:
        self.path = path
        self.engine = engine
        self._sessions = sessionmaker(engine, expire_on_commit=False)
        self._writer = threading.Lock()

    @classmethod
    def open(cls, path: Path) -> "Database":
        """Open the file, creating it and its folder where missing, and bring its schema up to date.

        Raises:
            StoreUnavailable: it cannot be created, read or written, is locked, or is no database.
            EvoError: it was written by a newer version, or by another program.
        """
        path = path.expanduser().absolute()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnavailable(f"database {path}: no folder for it ({error.strerror}): use another --db") from error
        with _explained(path):
            refuse_foreign(path)
        engine = _engine(path)
        with _explained(path), engine.connect() as connection:
            connection.execution_options(**_WRITES)
            with connection.begin():
                upgrade(connection, path)
                connection.exec_driver_sql("PRAGMA user_version = 1")  # a write, so that a read-only file shows
        return cls(path, engine)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session that sees one state of the database; nothing of it is kept."""
        with _explained(self.path), self._sessions() as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """One transaction: committed when the block ends, undone when it raises."""
        with _explained(self.path), self._writer, self._sessions.begin() as session:
            session.connection(execution_options=_WRITES)
            yield session

    def close(self) -> None:
        self.engine.dispose()


def _engine(path: Path) -> Engine:
    engine = create_engine(
        f"sqlite:///{path}",
        connect_args={"timeout": BUSY_TIMEOUT_S},
        pool_size=8,
        max_overflow=32,
        query_cache_size=500,
    )
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", _begin)
    return engine


def _configure(connection: sqlite3.Connection, _: Any) -> None:
    connection.isolation_level = None  # the driver's own idea of when to begin would keep writers from queueing
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(f"BEGIN {connection.get_execution_options().get('begin', 'DEFERRED')}")


_WAYS_OUT = {
    "locked": "another process holds it: end that process, or use another --db",
    "readonly": "it is read-only here: make the file and its folder writable, or use another --db",
    "unable to open": "it cannot be opened or created: check that its folder is writable, or use another --db",
    "not a database": "it is not a kernel-evo database: move the file away, or use another --db",
    "malformed": "it is damaged: restore a backup, or use another --db",
    "full": "the disk is full: free some space and start again; nothing that was acknowledged is lost",
    "disk i/o": "the disk refuses to read or write it: check the disk, or use another --db",
}


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Say in the user's words why the file cannot be used; any other error passes as it is."""
    try:
        yield
    except DatabaseError as error:
        reason = str(error.orig if isinstance(error, DBAPIError) else error)
        way_out = next((text for sign, text in _WAYS_OUT.items() if sign in reason.lower()), None)
        if way_out is None:
            raise
        raise StoreUnavailable(f"database {path}: {way_out} ({reason})") from error
