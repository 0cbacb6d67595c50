"""One database: opening it, and the transactions that the edge owns."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker

from db.engine.events import collected, write_events
from db.engine.location import Location
from db.engine.schema import upgrade
from db.engine.signals import Signals, announced
from db.engine.store import Store, store_of
from db.engine.unavailable import StoreUnavailable

__all__ = ["Database", "StoreUnavailable"]


@dataclass
class Commits:
    """Whether a transaction was committed, or may have been."""

    any: bool = False


_commits: ContextVar[Commits | None] = ContextVar("commits", default=None)


@contextmanager
def committing() -> Iterator[Commits]:
    """Watch the commits of the block, and of threads and tasks that it starts."""
    commits = Commits()
    token = _commits.set(commits)
    try:
        yield commits
    finally:
        _commits.reset(token)


class Database:
    """An open database. Repositories get a `Session` from it and never commit: the block that opened it does.

    Safe to share between threads.

    Attributes:
        signals: hears what any process announced with what it committed (`db.engine.signals.announce`).
    """

    def __init__(self, location: Location, engine: Engine, store: Store) -> None:
        self.location = location
        self.engine = engine
        self.signals = Signals()
        self._store = store
        self._sessions = sessionmaker(engine, expire_on_commit=False)
        self._writer: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
        if store.one_writer:
            self._writer = threading.Lock()  # fairer and quicker than the engine's own polling
        self._stop_listening: Callable[[], None] = lambda: None

    @classmethod
    def open(cls, given: str | Path | Location) -> "Database":
        """Open it, creating what is missing, and bring its schema up to date.

        Raises:
            StoreUnavailable: it cannot be created, reached, read or written, is locked, or is no database.
            EvoError: it was written by a newer version, or by another program.
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
                        upgrade(connection, location)
            except BaseException:
                engine.dispose()
                raise
        return cls(location, engine, store)

    @property
    def shared(self) -> bool:
        """Whether other service processes may be at work on it."""
        return self.location.shared

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session that sees one state of the database; nothing of it is kept."""
        with self._reading(self._store.reads) as session:
            yield session

    @contextmanager
    def look(self) -> Iterator[Session]:
        """The same, but each query sees the state of its own moment, which spares a server the transaction."""
        with self._reading(self._store.looks) as session:
            yield session

    @contextmanager
    def _reading(self, options: dict[str, Any]) -> Iterator[Session]:
        with _explained(self._store), self._sessions() as session:
            if options:
                session.connection(execution_options=options)
            yield session
            session.expunge_all()
            session.commit()  # nothing; a rollback would make the driver forget all statements that it prepared

    @contextmanager
    def write(self) -> Iterator[Session]:
        """One transaction: committed when the block ends, undone when it raises."""
        with _explained(self._store), self._writer, self._sessions() as session:
            with self._watched(), session.begin():
                if self._store.writes:
                    session.connection(execution_options=self._store.writes)
                yield session
                self._store.publish(session, announced(session))
                if events := collected(session):
                    self._store.number_events(session)
                    write_events(session, events)
            for topic in announced(session):
                self.signals.tell(topic)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Note a commit; a failed one counts only where the server may have committed and its answer was lost."""
        commits = _commits.get()
        try:
            yield
        except BaseException as error:
            if commits is not None and self._store.may_have_committed(error):
                commits.any = True
            raise
        if commits is not None:
            commits.any = True

    def alone(self, session: Session) -> bool:
        """Whether no other service process runs on this database, as far as the session's transaction goes."""
        return self._store.alone(session)

    def others(self, session: Session) -> bool:
        """Whether other service processes run on this database now."""
        return self._store.others(session)

    def listen(self) -> None:
        """From now on count as a service process, and hear what others announce."""
        self._stop_listening = self._store.listen(self.signals.tell)

    def close(self) -> None:
        """What a thread still uses is closed as soon as it gives it back."""
        self._stop_listening()
        event.listen(self.engine.pool, "checkin", _closed)
        self.engine.dispose()


def _closed(connection: Any, _entry: object) -> None:
    """A pool that was disposed of would keep it, open, until it is collected as garbage."""
    if connection is not None:
        connection.close()


@contextmanager
def _explained(store: Store) -> Iterator[None]:
    """Say in the user's words why the database cannot be used; any other error passes as it is."""
    try:
        yield
    except SQLAlchemyError as error:
        explained = store.explained(error)
        if explained is None:
            raise
        raise explained from error
