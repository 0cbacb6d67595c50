"""Exclusive transaction of one process on one search."""

from contextlib import ExitStack

from sqlalchemy.orm import Session

from api.scheduler.active import ActiveSearch
from db.engine.events import Events
from db.engine.session import Database
from db.engine.signals import WORK, announce
from db.repositories.coordination import Coordination


class Outdated(Exception):
    """Raised if a search in memory does not match the history in the database."""


class SearchTransaction:
    """An unfinished search in memory, with the transaction that stores its changes.

    An SQLite database is served by one process, so a lock in memory is enough. The transaction begins when the session
    is first used, so that the database is not locked while a strategy proposes. With PostgreSQL, the transaction first
    locks the row of the search, and then reads the changes of other processes. If this process hangs, the server rolls
    the transaction back so that other processes can continue, and refuses later writes of this transaction.

    Attributes:
        ended: ids of the trials that ended in this transaction.
    """

    def __init__(self, database: Database, active: ActiveSearch, stack: ExitStack) -> None:
        self.active = active
        self._database = database
        self._stack = stack
        self._session: Session | None = None
        self._milestone = False
        self.ended: list[int] = []

    @property
    def session(self) -> Session:
        """Session of the database transaction. It is committed at the end, and rolled back after an error."""
        if self._session is None:
            self._session = self._stack.enter_context(self._database.write())
        return self._session

    def lock(self) -> bool:
        """Lock the search against other processes and read their changes. Return False if the search has ended.

        Raises:
            Outdated: the database returned to an earlier state. The search must be rebuilt from the database.
        """
        locked = Coordination(self.session).lock(self.active.id)
        if locked is None:
            return False
        if locked.revision != self.active.revision and not self.active.follow(self.session, locked):
            raise Outdated
        return True

    def queued(self) -> None:
        """Record that a job was queued, and wake the requests that wait for work."""
        self.active.has_queued = True
        self.milestone()
        announce(self.session, WORK)

    def milestone(self) -> None:
        """Record a change other than new trials and outcomes, so that other processes read it."""
        self._milestone = True

    def end(self) -> None:
        """Store the events, and increment the revision of the search so that other processes update their copies."""
        if self.ended:
            Events(self.session).trials_ended(self.active.id, self.ended)
        if self._database.shared:
            self.active.revision += 1
            if self._milestone:
                Coordination(self.session).mark(self.active.id)
