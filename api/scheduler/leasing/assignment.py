"""Chooses the searches whose jobs are leased to a slot."""

from collections.abc import Callable, Collection
from datetime import datetime

from api.operations.failures import Failures
from api.scheduler.active import Clock
from api.scheduler.leasing import claims
from api.scheduler.leasing.claims import Slot
from api.scheduler.leasing.queue import WorkQueue, WorkRequest
from api.scheduler.registry import Registry
from api.schemas import LeaseReply
from db.engine.session import Database
from db.repositories.archive import Archive
from db.repositories.fleet import Fleet
from db.repositories.leases import Leases
from evo.messages.job import Lease


class Dispatch:
    """Finds jobs for slots. Several threads may use one object.

    Args:
        connected_since: function that returns a time. Workers that sent a request after this time count as connected.
        failures: counter of the consecutive failures of each search.
    """

    def __init__(
        self,
        database: Database,
        registry: Registry,
        queue: WorkQueue,
        clock: Clock,
        *,
        lease_s: float,
        connected_since: Callable[[], datetime],
        failures: Failures,
    ) -> None:
        self._failures = failures
        self._database = database
        self._registry = registry
        self._queue = queue
        self._clock = clock
        self._lease_s = lease_s
        self._connected_since = connected_since

    def claim(
        self,
        worker_id: str,
        device_uuid: str,
        count: int,
        holding: Collection[int] | None,
        unable: Collection[int],
        *,
        incarnation: str | None,
    ) -> LeaseReply:
        """Return up to `count` jobs for one device.

        `api.scheduler.conductor.Conductor.claim` describes the arguments.
        """
        with self._database.look() as session:
            slot_row = Fleet(session).slot(worker_id, device_uuid, incarnation, seen_since=self._connected_since())
            if slot_row.drain or slot_row.quarantined:
                return LeaseReply(leases=[], drain=slot_row.drain)
            same = slot_row.incarnation in (
                None,
                incarnation,
            )  # otherwise another process of the worker may have the jobs
            unreported = (
                Leases(session).unreported(worker_id, device_uuid, holding) if same and holding is not None else []
            )
            searches = Archive(session).at_work()
        slot = Slot(
            worker_id=worker_id, device=slot_row.device, lease_s=self._lease_s, connected_since=self._connected_since()
        )
        leases: list[Lease] = []
        self._failures.each(
            unreported[:count],
            lambda each: leases.extend(self._earlier_lease(each[1], slot, each[0])),
            key=lambda each: each[1],
        )

        def add(search_id: int) -> None:
            if len(leases) < count and search_id not in unable and self._registry.fits(search_id, slot.device):
                leases.extend(self._queue.claim(search_id, WorkRequest(slot=slot, count=count - len(leases))))

        self._failures.each(searches, add, key=lambda search_id: search_id)
        return LeaseReply(leases=leases, drain=False)

    def _earlier_lease(self, search_id: int, slot: Slot, attempt_id: int) -> list[Lease]:
        """Renew a granted lease that did not reach the worker. Return a list with the lease.

        The list is empty if the lease has ended.
        """
        with self._registry.transaction(search_id) as transaction:
            return [] if transaction is None else claims.again(transaction, slot, attempt_id, self._clock())
