"""What differs between the engines, as `db.engine.session` needs it; one implementation each."""

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
    """One engine's ways. `db.engine.sqlite` and `db.engine.postgresql` implement it."""

    reads: dict[str, Any]
    """Execution options of a transaction that only reads."""
    looks: dict[str, Any]
    """Execution options of statements that read, each for itself."""
    writes: dict[str, Any]
    """Execution options of one that writes."""
    one_writer: bool
    """Whether writers of this process should queue for each other, since the engine lets in one at a time."""

    def engine(self) -> Engine:
        """A pool of connections; none is opened yet.

        Raises:
            EvoError: the location cannot be used.
        """

    def before_upgrade(self, connection: Connection) -> None:
        """Keep other processes from upgrading at the same time, until the transaction ends."""

    def explained(self, error: SQLAlchemyError) -> EvoError | None:
        """The error in the user's words; None for one that is a bug of ours."""

    def rebuilding(self, connection: Connection) -> AbstractContextManager[None]:
        """Let migrations rebuild tables that others refer to; entered before the transaction begins."""

    def number_events(self, session: Session) -> None:
        """Keep other transactions from numbering events until the session's transaction ends."""

    def may_have_committed(self, error: BaseException) -> bool:
        """Whether a transaction that ended with this error may be in effect all the same."""

    def publish(self, session: Session, topics: Sequence[Topic]) -> None:
        """Tell other processes when the session's transaction is committed."""

    def alone(self, session: Session) -> bool:
        """Whether no other process listens; none begins to until the session's transaction ends."""

    def others(self, session: Session) -> bool:
        """Whether other processes listen now."""

    def listen(self, hearer: Callable[[Topic], None]) -> Callable[[], None]:
        """Hear what other processes publish; returns what ends that."""


def store_of(location: Location) -> Store:
    """The engine of a location."""
    if location.server is not None:
        from db.engine.postgresql import PostgreSQL

        return PostgreSQL(location)
    from db.engine.sqlite import SQLite

    return SQLite(location)
