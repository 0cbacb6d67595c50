"""The unfinished searches of this process, each held under a lock of its own and rebuilt when in doubt."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from api.active import ActiveSearch, Clock
from api.catalogue import Catalogue
from api.endgame import drop_open
from db.archive import Archive
from db.events import Events
from db.leases import StaleLease
from db.session import Database, StoreUnavailable
from evo.errors import EvoError, InvalidInput
from evo.lifecycle import transition

log = structlog.get_logger("conductor")


class Roster:
    """What is in memory is disposable: the database can always say it again. Safe to share between threads."""

    def __init__(self, database: Database, catalogue: Catalogue, clock: Clock) -> None:
        self._database = database
        self._catalogue = catalogue
        self._clock = clock
        self._searches: dict[int, ActiveSearch | None] = {}
        self._priorities: dict[int, int] = {}
        self._loading = threading.RLock()

    def add(self, search_id: int, priority: int = 0) -> None:
        """Take up an unfinished search; it is read from the database when first needed."""
        with self._loading:
            self._searches.setdefault(search_id, None)
            self._priorities[search_id] = priority

    def prefer(self, search_id: int, priority: int) -> None:
        """Change the order in which workers serve the searches."""
        with self._loading:
            if search_id in self._searches:
                self._priorities[search_id] = priority

    def remove(self, search_id: int) -> None:
        """Let go of a search that has ended."""
        with self._loading:
            self._searches.pop(search_id, None)
            self._priorities.pop(search_id, None)

    @property
    def ids(self) -> list[int]:
        """The searches taken up, those of higher priority first, of equal ones the oldest."""
        with self._loading:
            return sorted(self._searches, key=lambda search_id: (-self._priorities[search_id], search_id))

    @contextmanager
    def held(self, search_id: int) -> Iterator[ActiveSearch | None]:
        """An unfinished search, locked; None when it has ended or does not exist.

        An error within leaves what is in memory in doubt: it is dropped, and rebuilt when next needed.
        """
        while True:
            active = self._loaded(search_id)
            if active is None:
                yield None
                return
            with active.lock:
                if self._searches.get(search_id) is not active:
                    continue  # it ended, or was dropped, while we waited
                try:
                    yield active
                except (InvalidInput, StaleLease):
                    raise  # refused before anything was changed
                except BaseException:
                    self._drop(active)
                    raise
                return

    def fail(self, search_id: int, reason: str) -> None:
        """End a search that cannot go on."""
        now = self._clock()
        with self._database.write() as session:
            row = Archive(session).search(search_id)
            row.state, row.reason, row.finished_at = transition(row.state, "fail"), reason, now
            drop_open(session, search_id, now)
            Events(session).search_changed(search_id)
        self.remove(search_id)
        log.error("search failed", search=search_id, reason=reason)

    def _drop(self, active: ActiveSearch) -> None:
        with self._loading:
            if self._searches.get(active.id) is active:
                self._searches[active.id] = None

    def _loaded(self, search_id: int) -> ActiveSearch | None:
        with self._loading:
            if search_id in self._searches and self._searches[search_id] is None:
                self._load(search_id)
            return self._searches.get(search_id)

    def _load(self, search_id: int) -> None:
        with self._database.read() as session:
            row = Archive(session).search(search_id)
            try:
                self._searches[search_id] = ActiveSearch.load(session, row, self._catalogue)
                return
            except StoreUnavailable:
                raise
            except EvoError as error:
                reason = f"it cannot be continued: {error}"
        self.fail(search_id, reason)
