"""Opens a database and provides read and write transactions. Defines the interface of database engines."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker

from db.engine.events import collected, write_events
from db.engine.location import Location
from db.engine.schema import check_schema, prepare
from db.engine.signals import Signals, Topic, announced
from db.engine.unavailable import StoreUnavailable
from evo.errors import EvoError


class Store(Protocol):
    """Operations that differ between database engines, implemented in `db.engine.sqlite` and `db.engine.postgresql`."""

    reads: dict[str, Any]
    """Execution options of a read transaction."""
    looks: dict[str, Any]
    """Execution options of single read statements without a transaction."""
    writes: dict[str, Any]
    """Execution options of a write transaction."""
    one_writer: bool
    """True if the engine allows only one writer at a time. Writers of this process then wait in a queue."""

    def engine(self) -> Engine:
        """Return a connection pool that has not opened a connection yet.

        Raises:
            EvoError: the location cannot be used.
        """

    def before_upgrade(self, connection: Connection) -> None:
        """Prevent other processes from upgrading the schema until the transaction ends."""

    def after_upgrade(self, connection: Connection) -> None:
        """Ensure that new rows get unused ids."""

    def explained(self, error: SQLAlchemyError) -> EvoError | None:
        """Return an error with a remedy for the user, or None if a bug in this program caused the error."""

    def refuse_lost(self) -> None:
        """Check that the files of the database are intact.

        Raises:
            StoreUnavailable: a file was removed, replaced or truncated while the database was open.
        """

    def closing(self) -> AbstractContextManager[None]:
        """Return a context manager for closing connections, which prevents writes to damaged SQLite files."""

    def rebuilding(self, connection: Connection) -> AbstractContextManager[None]:
        """Return a context manager in which migrations can rebuild tables that foreign keys reference.

        Enter it before the transaction begins.
        """

    def number_events(self, session: Session) -> None:
        """Prevent other transactions from numbering events until the session's transaction ends."""

    def may_have_committed(self, error: BaseException) -> bool:
        """Return True if a transaction that raised this error may have been committed."""

    def publish(self, session: Session, topics: Sequence[Topic]) -> None:
        """Notify other processes when the session's transaction commits."""

    def alone(self, session: Session) -> bool:
        """Return True if no other process listens.

        If the result is True, other processes cannot start to listen until the transaction ends.
        """

    def others(self, session: Session) -> bool:
        """Return True if other processes listen now."""

    def listen(self, subscriber: Callable[[Topic], None]) -> Callable[[], None]:
        """Call `subscriber` with each topic that another process publishes.

        Return a function that ends the subscription.
        """


def store_of(location: Location) -> Store:
    """Return the engine for a location."""
    if location.server is not None:
        from db.engine.postgresql import PostgreSQL

        return PostgreSQL(location)
    from db.engine.sqlite import SQLite

    return SQLite(location)


__all__ = ["Database", "StoreUnavailable"]


@dataclass
class Commits:
    """Flag that is set when a transaction was committed, or may have been committed."""

    any: bool = False


_commits: ContextVar[Commits | None] = ContextVar("commits", default=None)


@contextmanager
def committing() -> Iterator[Commits]:
    """Context manager that records whether a transaction was committed in the block.

    Transactions in threads and tasks that were started in the block are also recorded.
    """
    commits = Commits()
    token = _commits.set(commits)
    try:
        yield commits
    finally:
        _commits.reset(token)


class Database:
    """An open database. Several threads may use one object.

    Repositories receive a `Session` and never commit. The code that opened the session commits it.

    Attributes:
        signals: notifies subscribers of the topics that processes announce when they commit
            (`db.engine.signals.announce`).
        refusal: error if the database refused the latest write transaction, else None.
    """

    def __init__(self, location: Location, engine: Engine, store: Store) -> None:
        self.location = location
        self.engine = engine
        self.signals = Signals()
        self._store = store
        self._sessions = sessionmaker(engine, expire_on_commit=False)
        self._writer: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
        if store.one_writer:
            self._writer = threading.Lock()  # SQLite's own queue polls: it is slower and less fair
        self._stop_listening: Callable[[], None] = lambda: None
        self.refusal: StoreUnavailable | None = None

    @classmethod
    def open(cls, given: str | Path | Location) -> "Database":
        """Open a database, upgrade its schema, and return it. Create the database if it does not exist.

        Raises:
            StoreUnavailable: the database cannot be created, reached, read or written, it is locked, or the file is not
                a database.
            EvoError: the database was written by a newer version of kernel-evo or by another program.
        """
        location = Location.of(given)
        store = store_of(location)
        with _explained(store):
            engine = store.engine()
            try:
                with engine.connect() as connection:
                    connection.execution_options(**store.writes)
                    with store.rebuilding(connection), connection.begin():
                        store.before_upgrade(connection)
                        prepare(connection, location)
                        store.after_upgrade(connection)
            except BaseException:
                with store.closing():
                    engine.dispose()
                raise
        return cls(location, engine, store)

    @property
    def shared(self) -> bool:
        """True if other service processes may use the database (PostgreSQL)."""
        return self.location.shared

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Open a read-only session with a consistent snapshot of the database. Changes made in it are discarded."""
        with self._reading(self._store.reads) as session:
            yield session

    @contextmanager
    def look(self) -> Iterator[Session]:
        """Open a read-only session in which each query sees the latest state, without a transaction on the server."""
        with self._reading(self._store.looks) as session:
            yield session

    @contextmanager
    def _reading(self, options: dict[str, Any]) -> Iterator[Session]:
        with _explained(self._store), self._sessions() as session:
            if options:
                session.connection(execution_options=options)
            yield session
            session.expunge_all()
            session.commit()  # commits nothing; a rollback would drop the driver's prepared statements

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Open one write transaction. It is committed at the end of the block, and rolled back after an error."""
        with self._noted(), _explained(self._store), self._writer, self._sessions() as session:
            with self._watched(), session.begin():
                if self._store.writes:
                    session.connection(execution_options=self._store.writes)
                yield session
                self._store.publish(session, announced(session))
                if events := collected(session):
                    self._store.number_events(session)
                    write_events(session, events)
            for topic in announced(session):
                self.signals.notify(topic)

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """Context manager that records whether the database accepts writes. Errors of the caller are not recorded."""
        try:
            yield
        except StoreUnavailable as error:
            self.refusal = error
            raise
        self.refusal = None

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Context manager that records a commit for `committing`.

        A failed commit is also recorded if the server may have committed and its reply was lost.
        """
        commits = _commits.get()
        try:
            yield
        except BaseException as error:
            if commits is not None and self._store.may_have_committed(error):
                commits.any = True
            raise
        if commits is not None:
            commits.any = True

    def check(self) -> None:
        """Check that the database can be read, has the expected schema, and has lost no file.

        Raises:
            StoreUnavailable: the database cannot be read, has a different schema, or has lost a file.
        """
        self._store.refuse_lost()
        with self.read() as session:
            check_schema(session.connection())

    def alone(self, session: Session) -> bool:
        """Return True if no other service process uses this database.

        If the result is True, no other process can begin to use it until the transaction ends.
        """
        return self._store.alone(session)

    def others(self, session: Session) -> bool:
        """Return True if other service processes use this database now."""
        return self._store.others(session)

    def listen(self) -> None:
        """Register as a service process, and start receiving the announcements of other processes."""
        self._stop_listening = self._store.listen(self.signals.notify)

    def close(self) -> None:
        """Close the database. Connections still in use are closed when their threads return them."""
        self._stop_listening()
        event.listen(self.engine.pool, "checkin", _closed)
        with self._store.closing():
            self.engine.dispose()


def _closed(connection: Any, _entry: object) -> None:
    """Close a connection that is returned after the pool has been disposed of.

    Otherwise the connection would stay open until garbage collection.
    """
    if connection is not None:
        connection.close()


@contextmanager
def _explained(store: Store) -> Iterator[None]:
    """Context manager that converts database errors to errors with a remedy. Errors without a remedy pass unchanged."""
    try:
        yield
    except SQLAlchemyError as error:
        explained = store.explained(error)
        if explained is None:
            raise
        raise explained from error
