"""Handing out work: which searches a slot is served from."""

from collections.abc import Callable, Collection
from datetime import datetime

from api import claims
from api.active import Clock
from api.claims import Slot
from api.desk import Desk, Want
from api.roster import Roster
from api.schemas import LeaseReply
from db.archive import Archive
from db.fleet import Fleet
from db.leases import Leases
from db.session import Database
from evo.job import Lease


class Dispatch:
    """Safe to share between threads.

    Args:
        connected_since: workers heard of since then count as there.
    """

    def __init__(
        self,
        database: Database,
        roster: Roster,
        desk: Desk,
        clock: Clock,
        *,
        lease_s: float,
        connected_since: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._roster = roster
        self._desk = desk
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
        """See `api.conductor.Conductor.claim`."""
        with self._database.look() as session:
            standing = Fleet(session).slot(worker_id, device_uuid, incarnation)
            if standing.drain or standing.quarantined:
                return LeaseReply(leases=[], drain=standing.drain)
            same = standing.incarnation in (None, incarnation)  # else another process may hold them
            unheard = Leases(session).unheard(worker_id, device_uuid, holding) if same and holding is not None else []
            searches = Archive(session).at_work()
        slot = Slot(
            worker_id=worker_id, device=standing.device, lease_s=self._lease_s, connected_since=self._connected_since()
        )
        leases = [
            lease for attempt_id, search_id in unheard[:count] for lease in self._again(search_id, slot, attempt_id)
        ]
        for search_id in searches:
            if len(leases) < count and search_id not in unable and self._roster.fits(search_id, slot.device):
                leases += self._desk.claim(search_id, Want(slot=slot, count=count - len(leases)))
        return LeaseReply(leases=leases, drain=False)

    def _again(self, search_id: int, slot: Slot, attempt_id: int) -> list[Lease]:
        """A lease that was granted by an answer which never arrived: the same one."""
        with self._roster.turn(search_id) as turn:
            return [] if turn is None else claims.again(turn, slot, attempt_id, self._clock())
