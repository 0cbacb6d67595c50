"""Interface between `db.engine.session` and the database engines."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from db.engine.location import Location
from db.engine.signals import Topic
from evo.errors import EvoError


class Store(Protocol):
    """Operations that differ between engines. `db.engine.sqlite` and `db.engine.postgresql` implement it."""

    reads: dict[str, Any]
    """Execution options of a read transaction."""
    looks: dict[str, Any]
    """Execution options of single read statements without a transaction."""
    writes: dict[str, Any]
    """Execution options of a write transaction."""
    one_writer: bool
    """True if the engine allows one writer at a time, so that writers of this process should queue."""

    def engine(self) -> Engine:
        """Return a connection pool; no connection is opened yet.

        Raises:
            EvoError: the location cannot be used.
        """

    def before_upgrade(self, connection: Connection) -> None:
        """Prevent other processes from upgrading the schema until the transaction ends."""

    def explained(self, error: SQLAlchemyError) -> EvoError | None:
        """Return an error that tells the user what to do, or None if the error is a bug of this program."""

    def rebuilding(self, connection: Connection) -> AbstractContextManager[None]:
        """Allow migrations to rebuild tables that others refer to; enter it before the transaction begins."""

    def number_events(self, session: Session) -> None:
        """Prevent other transactions from numbering events until the session's transaction ends."""

    def may_have_committed(self, error: BaseException) -> bool:
        """Return True if a transaction that raised this error may have been committed."""

    def publish(self, session: Session, topics: Sequence[Topic]) -> None:
        """Notify other processes when the session's transaction commits."""

    def alone(self, session: Session) -> bool:
        """Return True if no other process listens; none can start to until the session's transaction ends."""

    def others(self, session: Session) -> bool:
        """Return True if other processes listen now."""

    def listen(self, subscriber: Callable[[Topic], None]) -> Callable[[], None]:
        """Call `subscriber` with what other processes publish. Return a function that stops this."""


def store_of(location: Location) -> Store:
    """Return the engine for a location."""
    if location.server is not None:
        from db.engine.postgresql import PostgreSQL

        return PostgreSQL(location)
    from db.engine.sqlite import SQLite

    return SQLite(location)
