"""SQLite engine. The database is one file, served by one process."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

from sqlalchemy import URL, Connection, Engine, ExceptionContext, NullPool, create_engine, event, inspect
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.orm import Session

from db.engine.damage import (
    FILE_OVERWRITTEN,
    FILE_REMOVED,
    LOG_REMOVED,
    LOG_REPLACED,
    RESTORE,
    FileCut,
    Index,
    LockedFiles,
    Loss,
    Written,
    damage,
    lost_frames,
    read_index,
    written,
)
from db.engine.location import Location
from db.engine.signals import Topic
from db.engine.unavailable import OTHER_TABLES, StoreUnavailable
from db.models.columns import UnreadableValue
from evo.errors import EvoError
from evo.text.shell import joined

LARGEST_LOG = 64 << 20
"""Maximum size in bytes of the write-ahead log after a checkpoint."""

BUSY_TIMEOUT_S = 5.0
"""Seconds that a statement waits while another process writes to the same file."""


class SQLite:
    """Implements `db.engine.session.Store`. Readers never wait for writers (write-ahead log)."""

    reads: dict[str, Any] = {}  # noqa: RUF012 — the protocol's plain attribute
    looks: dict[str, Any] = {}  # noqa: RUF012
    writes: dict[str, Any] = {"begin": "IMMEDIATE"}  # noqa: RUF012
    one_writer = True

    def __init__(self, location: Location) -> None:
        self.path = cast(Path, location.file)
        self._real = self.path.resolve()  # SQLite creates the log next to the target of a symbolic link
        self._log = self._real.with_name(f"{self._real.name}-wal")
        self._opened: tuple[int, int] | None = None
        self._bytes = 0
        self._written: Written | None = None
        self._overwritten = False
        self._files = LockedFiles()

    def engine(self) -> Engine:
        """Return a connection pool. Create the folder of the file if it is missing.

        Raises:
            StoreUnavailable: the folder cannot be created, or the file is damaged.
            EvoError: the file is the database of another program.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = f"its folder cannot be created ({error.strerror})"
            raise StoreUnavailable(f"database {self.path}: {reason}; use another --db") from error
        self._refuse_damaged()
        self._refuse_foreign()
        engine = create_engine(
            URL.create("sqlite", database=str(self.path)),
            connect_args={"timeout": BUSY_TIMEOUT_S},
            pool_size=8,
            max_overflow=32,
            query_cache_size=500,
        )
        event.listen(engine, "do_connect", self._refuse_lost_file)  # otherwise, a connection could remove the log
        event.listen(engine, "connect", _configure)
        event.listen(engine, "handle_error", self._on_error)
        event.listen(engine, "begin", self._begin)
        return engine

    def _begin(self, connection: Connection) -> None:
        mode = connection.get_execution_options().get("begin", "DEFERRED")
        connection.exec_driver_sql(f"BEGIN {mode}")
        if mode != "DEFERRED" and (loss := self._loss() or self._lost_log(connection)) is not None:
            connection.exec_driver_sql("ROLLBACK")
            raise self._lost(loss)

    def _lost_log(self, connection: Connection) -> Loss | None:
        """Return the loss if the write-ahead log that a connection opened was removed or replaced, else None.

        If the log is lost, readers do not see new writes.
        """
        try:
            found = self._log.stat().st_ino
        except OSError:
            found = None
        if connection.info.setdefault("log", found) == found:
            return None
        return LOG_REMOVED if found is None else LOG_REPLACED

    def _refuse_lost_file(self, *_: object) -> None:
        """Check that the path still refers to the opened file. Otherwise, writes would be lost.

        Raises:
            StoreUnavailable: the file was removed, replaced, truncated or overwritten.
        """
        if (loss := self._lost_file(self._index())) is not None:
            raise self._lost(loss)

    def _index(self) -> Index | None:
        return read_index(self._real, self._files)

    def _lost_file(self, index: Index | None) -> Loss | None:
        """Return the loss if the opened file was removed, replaced, truncated or overwritten, else None."""
        try:
            state = self.path.stat()
            found, size = (state.st_dev, state.st_ino), state.st_size
        except OSError:
            found, size = None, 0
        self._opened = self._opened or found
        if found != self._opened:
            return FILE_REMOVED
        if size < self._bytes and (size == 0 or damage(self._real, self._files) is not None):
            return FileCut(f"its file was cut to {size} bytes", RESTORE)
        self._bytes = size
        if (now := written(self._real, index, self._files)) is not None:
            self._overwritten |= self._written is not None and self._written.overwritten(now)
            self._written = now
        return FILE_OVERWRITTEN if self._overwritten else None

    def refuse_lost(self) -> None:
        if (loss := self._loss()) is not None:
            raise self._lost(loss)

    def _loss(self) -> Loss | None:
        index = self._index()
        return self._lost_file(index) or lost_frames(self._real, index, self._files)

    def _lost(self, loss: Loss) -> StoreUnavailable:
        message = f"database {self.path}: {loss.how} while it was in use; {loss.remedy}"
        return StoreUnavailable(message, public=loss.how)

    def _on_error(self, context: ExceptionContext) -> BaseException | None:
        """Return the error to raise in place of an error of the driver, or None to keep the driver's error.

        Error messages of SQLite may contain damaged table names, which the driver cannot decode.
        """
        if isinstance(context.original_exception, UnicodeDecodeError):
            return self._unavailable("malformed", "names of its tables are not valid UTF-8")
        return None

    def _unavailable(self, sign: str, reason: str) -> StoreUnavailable:
        """Return an error with a reason and a remedy. `sign` is the key of the remedy in `_REMEDIES`."""
        remedy = _REMEDIES[sign]
        return StoreUnavailable(f"database {self.path}: {remedy} ({reason})", public=remedy.partition(";")[0])

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Context manager that keeps the write-ahead log of a truncated file while the last connection closes.

        With its last connection, SQLite would write the log into the file, and the loss could no longer be detected.
        SQLite does not do this if the file was renamed. A truncated file is therefore renamed during the block.
        """
        cut = isinstance(self._lost_file(self._index()), FileCut)
        aside = self._real.with_name(f"{self._real.name}.cut")
        if cut:
            self._real.rename(aside)
        try:
            yield
        finally:
            if cut:
                aside.rename(self._real)
            self._files.close()

    def before_upgrade(self, connection: Connection) -> None:
        connection.exec_driver_sql("PRAGMA user_version = 1")  # fails early if the file is read-only

    def after_upgrade(self, connection: Connection) -> None:
        """Do nothing, because SQLite always gives new rows unused ids."""

    @contextmanager
    def rebuilding(self, connection: Connection) -> Iterator[None]:
        """Context manager that disables foreign keys while migrations rebuild tables.

        If foreign keys were enforced, dropping a table would fail, or delete the rows that refer to the table.
        """
        driver = cast(sqlite3.Connection, connection.connection.dbapi_connection)
        driver.execute("PRAGMA foreign_keys=OFF")
        try:
            yield
        finally:
            driver.execute("PRAGMA foreign_keys=ON")

    def number_events(self, session: Session) -> None:
        """Do nothing. SQLite has one writer at a time, so events are numbered without conflicts."""

    def explained(self, error: SQLAlchemyError) -> EvoError | None:
        reason = str(error.orig if isinstance(error, DBAPIError) else error)
        if any(sign in reason.lower() for sign in _VALUE_ERRORS):
            return UnreadableValue(None, None, reason.partition(" with text")[0])
        sign = next((sign for sign in _REMEDIES if sign in reason.lower()), None)
        if sign in _SIGNS_OF_LOSS and (loss := self._loss()) is not None:
            return self._lost(loss)
        return None if sign is None else self._unavailable(sign, reason)

    def may_have_committed(self, error: BaseException) -> bool:
        """Return False, because SQLite rolls back a failed commit."""
        return False

    def publish(self, session: Session, topics: Sequence[Topic]) -> None:
        """Do nothing, because no other process uses the file."""

    def alone(self, session: Session) -> bool:
        return True

    def others(self, session: Session) -> bool:
        return False

    def listen(self, subscriber: Callable[[Topic], None]) -> Callable[[], None]:
        return lambda: None

    def _refuse_damaged(self) -> None:
        """Check for damage that SQLite ignores, because opening a damaged file would make the loss permanent.

        Raises:
            StoreUnavailable: the file was truncated, or its write-ahead log has a gap.
        """
        try:
            with closing(LockedFiles()) as files:
                found = damage(self._real, files) if self.path.is_file() else None
        except OSError:
            return  # SQLite reports why the file cannot be read
        if found is None:
            return
        give_up = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('PRAGMA wal_checkpoint(TRUNCATE)')"
        remedies = "restore a backup"
        if "-wal" in found:
            command = joined(["python3", "-c", give_up, str(self.path)])
            remedies += f", or discard the unreadable transactions and keep all earlier ones: {command}"
        raise StoreUnavailable(f"database {self.path} is damaged: {found}. Nothing was changed. Remedy: {remedies}")

    def _refuse_foreign(self) -> None:
        """Check, without writing, that an existing file is a database of this program."""
        if not self.path.exists():
            return
        read_only = f"{self.path.as_uri()}?mode=ro"
        engine = create_engine("sqlite://", creator=lambda: sqlite3.connect(read_only, uri=True), poolclass=NullPool)
        event.listen(engine, "handle_error", self._on_error)
        with engine.connect() as connection:
            refuse_foreign(str(self.path), inspect(connection).get_table_names())


def refuse_foreign(location: str, tables: Sequence[str]) -> None:
    """Refuse a database that belongs to another program.

    Raises:
        EvoError: the database contains tables, but not those of kernel-evo.
    """
    if tables and "alembic_version" not in tables:
        raise EvoError(
            f"database {location} is not a kernel-evo database (its tables: {', '.join(sorted(tables)[:3])}). "
            "Nothing was written to it. Use another --db"
        )


def _configure(connection: sqlite3.Connection, _: Any) -> None:
    connection.isolation_level = None  # the driver's implicit BEGIN would prevent writers from queueing
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", f"journal_size_limit={LARGEST_LOG}"):
        connection.execute(f"PRAGMA {pragma}")


_VALUE_ERRORS = ("malformed json", "could not decode to utf-8")
"""Error texts about a single unreadable value in an otherwise intact file."""

_SIGNS_OF_LOSS = ("unable to open", "not a database", "malformed", "disk i/o")
"""Error texts of SQLite that may also mean that a file was lost while the service used it."""

_REMEDIES = {
    "locked": "another process has locked it; end that process, or use another --db",
    "readonly": "it is read-only; make the file and its folder writable, or use another --db",
    "unable to open": "it cannot be opened or created; check that its folder is writable, or use another --db",
    "not a database": "it is not a kernel-evo database; move the file away, or use another --db",
    "malformed": "it is damaged; restore a backup, or use another --db",
    "no such table": OTHER_TABLES,
    "no such column": OTHER_TABLES,
    "has no column named": OTHER_TABLES,
    "full": "the disk is full; free some space and start again. No acknowledged change is lost",
    "disk i/o": "the disk cannot read or write it; check the disk, or use another --db",
}
