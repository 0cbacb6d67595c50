"""One process's go at one search: nobody else changes the search meanwhile."""

from contextlib import ExitStack

from sqlalchemy.orm import Session

from api.scheduler.active import ActiveSearch
from db.engine.events import Events
from db.engine.session import Database
from db.engine.signals import WORK, announce
from db.repositories.turns import Turns


class Turn:
    """An unfinished search in memory, and the one transaction in which all that is done with it is stored.

    On a database that one process serves, the lock in memory is enough, and the transaction begins when the session
    is first needed: a strategy thinks outside of it. On a shared one it begins at once, by locking the search's row,
    and what others have stored since is read before anything is done. Should this process stand still, the server
    undoes the transaction and lets others go on; what this one then tries to store is refused.

    Attributes:
        ended: ids of the trials that ended in this turn.
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
        """The transaction; committed when the turn ends, undone when it ends with an error."""
        if self._session is None:
            self._session = self._stack.enter_context(self._database.write())
        return self._session

    def lock(self) -> bool:
        """Keep other processes away and learn what they did; False if they ended the search."""
        standing = Turns(self.session).lock(self.active.id)
        if standing is None:
            return False
        if standing.revision != self.active.revision:
            self.active.follow(self.session, standing)
        return True

    def queued(self) -> None:
        """A job waits now: whoever waits for work should look."""
        self.active.has_queued = True
        self.milestone()
        announce(self.session, WORK)

    def milestone(self) -> None:
        """More happened than trials asked and told: who follows should look for it."""
        self._milestone = True

    def end(self) -> None:
        """Write down what happened, and let other processes know that what they remember is no longer all."""
        if self.ended:
            Events(self.session).trials_ended(self.active.id, self.ended)
        if self._database.shared:
            self.active.revision += 1
            if self._milestone:
                Turns(self.session).mark(self.active.id)
