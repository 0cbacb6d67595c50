"""The exclusive transaction of one process on one search."""

from contextlib import ExitStack

from sqlalchemy.orm import Session

from api.scheduler.active import ActiveSearch
from db.engine.events import Events
from db.engine.session import Database
from db.engine.signals import WORK, announce
from db.repositories.coordination import Coordination


class SearchTransaction:
    """An unfinished search in memory, with the transaction that stores all its changes.

    On a database that one process serves, the lock in memory is enough, and the transaction begins when the session
    is first needed, so strategies propose outside it. On a shared database it begins at once by locking the search's
    row, and changes of other processes are read first. If this process hangs, the server rolls the transaction back
    and others continue; what this process then tries to store is refused.

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
        """The database transaction. It is committed at the end, and rolled back after an error."""
        if self._session is None:
            self._session = self._stack.enter_context(self._database.write())
        return self._session

    def lock(self) -> bool:
        """Lock out other processes and read their changes; False if they ended the search."""
        locked = Coordination(self.session).lock(self.active.id)
        if locked is None:
            return False
        if locked.revision != self.active.revision:
            self.active.follow(self.session, locked)
        return True

    def queued(self) -> None:
        """Note that a job was queued, so that waiting workers look for it."""
        self.active.has_queued = True
        self.milestone()
        announce(self.session, WORK)

    def milestone(self) -> None:
        """Note a change beyond new trials and outcomes, so that other processes look for it."""
        self._milestone = True

    def end(self) -> None:
        """Store the changes, and increment the revision so that other processes update their copies."""
        if self.ended:
            Events(self.session).trials_ended(self.active.id, self.ended)
        if self._database.shared:
            self.active.revision += 1
            if self._milestone:
                Coordination(self.session).mark(self.active.id)
