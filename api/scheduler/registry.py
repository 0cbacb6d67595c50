"""Registry of the unfinished searches in memory. Only one thread of one process changes a search at a time."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import structlog

from api.families import Catalogue
from api.scheduler.active import ActiveSearch, Clock, Lost, nothing_lost
from api.scheduler.leasing.transaction import Outdated, SearchTransaction
from api.scheduler.lifecycle import drop_open, is_due
from db.engine.events import Events
from db.engine.session import Database, StoreUnavailable
from db.repositories.archive import Archive
from db.repositories.coordination import Coordination, Ended
from db.repositories.leases import StaleLease
from evo.device import Device
from evo.errors import EvoError, InvalidInput, NotFound
from evo.search.lifecycle import TERMINAL, transition

log = structlog.get_logger("conductor")


def stuck(reason: str) -> str:
    """Return the reason to store with a search that the service ends because it cannot continue the search."""
    return f"the service could not continue this search: {reason} (see the service's log)"


class Registry:
    """Unfinished searches in memory. They can be reloaded from the database at any time. Thread-safe."""

    def __init__(self, database: Database, catalogue: Catalogue, clock: Clock, lost_s: Lost = nothing_lost) -> None:
        self._lost_s = lost_s
        self._database = database
        self._catalogue = catalogue
        self._clock = clock
        self._searches: dict[int, ActiveSearch] = {}
        self._loading = threading.RLock()

    def revisions(self) -> dict[int, int]:
        """Return the revisions of the unfinished searches by id, highest priority first, then oldest first."""
        with self._database.read() as session:
            return Archive(session).unfinished()

    def is_due(self, search_id: int, revision: int) -> bool:
        """Return True if a transaction is due: a time limit has passed, or another process changed the search."""
        if (active := self._loaded(search_id)) is None:
            return False
        with active.lock:
            return active.revision != revision or is_due(active, self._clock())

    @contextmanager
    def transaction(self, search_id: int) -> Iterator[SearchTransaction | None]:
        """Context manager for a transaction on an unfinished search.

        It yields None if the search has ended or does not exist. All changes are committed together at the end of the
        block. After an error, the changes are rolled back, and the search in memory is dropped and later rebuilt. The
        search stays in memory after an `InvalidInput` or a `StaleLease`, because these are raised before any change.
        """
        while True:
            active = self._loaded(search_id)
            if active is None:
                yield None
                return
            with active.lock:
                if self._searches.get(search_id) is not active:
                    continue  # dropped from memory while this thread waited; load it again
                try:
                    with ExitStack() as stack:
                        transaction = SearchTransaction(self._database, active, stack)
                        locked = not self._database.shared or transaction.lock()
                        yield transaction if locked else None
                        if locked:
                            transaction.end()
                except Outdated:
                    log.warning(
                        "the database returned to an earlier state; the search is loaded again", search=search_id
                    )
                    self._drop(active)
                    continue
                except (InvalidInput, StaleLease):
                    raise  # raised before any change
                except BaseException:
                    self._drop(active)
                    raise
                if not locked or active.state in TERMINAL:
                    self._drop(active)
                return

    def fits(self, search_id: int, device: Device) -> bool:
        """Return True if a device may run jobs of an unfinished search. No transaction is needed."""
        active = self._loaded(search_id)
        return active is not None and active.fits(device)

    def fail(self, search_id: int, reason: str) -> None:
        """End a search as failed, because it cannot continue. Do nothing if it has already ended.

        If an ablation of the search is running, only the ablation ends, and the search is finished again.
        """
        now = self._clock()
        with self._database.write() as session:
            coordination = Coordination(session)
            locked = coordination.lock(search_id)
            if locked is None:
                return
            ended_before = locked.state == "ablating"
            state = transition(locked.state, "fail")
            if ended_before:
                coordination.end(search_id, state)
            else:
                coordination.end(search_id, state, ended=Ended(reason=reason, at=now, active_s=locked.elapsed_s(now)))
            drop_open(session, search_id, now)
            Events(session).search_changed(search_id)
        with self._loading:
            self._searches.pop(search_id, None)
        log.error("search failed", search=search_id, reason=reason)

    def _drop(self, active: ActiveSearch) -> None:
        with self._loading:
            if self._searches.get(active.id) is active:
                del self._searches[active.id]

    def _loaded(self, search_id: int) -> ActiveSearch | None:
        with self._loading:
            if search_id not in self._searches:
                self._load(search_id)
            return self._searches.get(search_id)

    def _load(self, search_id: int) -> None:
        with self._database.read() as session:
            try:
                row = Archive(session).search(search_id)
            except NotFound:
                return
            if row.state in TERMINAL:
                return
            try:
                self._searches[search_id] = ActiveSearch.load(session, row, self._catalogue, self._lost_s)
                return
            except StoreUnavailable:
                raise
            except EvoError as error:
                reason = f"the search cannot be continued: {error}"
        self.fail(search_id, reason)
