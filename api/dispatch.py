"""Handing out work: which searches a slot is served from, and all who ask the same one in one turn."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog
from sqlalchemy.exc import IntegrityError

from api import claims, endgame
from api.active import Clock
from api.claims import Slot, StrategyFailed
from api.roster import Roster
from api.schemas import LeaseReply
from api.together import Together
from api.turn import Turn
from db.archive import Archive
from db.fleet import Fleet
from db.leases import Leases
from db.session import Database
from evo.job import Lease

log = structlog.get_logger("conductor")

MAX_RACES = 3
"""How often a claim that lost a race is tried again with a fresh view of the search."""


@dataclass(frozen=True, kw_only=True)
class Want:
    """Up to `count` jobs of one search for a slot."""

    slot: Slot
    count: int


class Dispatch:
    """Safe to share between threads.

    Args:
        connected_since: workers heard of since then count as there.
    """

    def __init__(
        self,
        database: Database,
        roster: Roster,
        clock: Clock,
        *,
        lease_s: float,
        connected_since: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._roster = roster
        self._clock = clock
        self._lease_s = lease_s
        self._connected_since = connected_since
        self._together = Together(self._serve)

    def claim(
        self, worker_id: str, device_uuid: str, count: int, holding: Collection[int] | None, unable: Collection[int]
    ) -> LeaseReply:
        """See `api.conductor.Conductor.claim`."""
        with self._database.read() as session:
            standing = Fleet(session).slot(worker_id, device_uuid)
            if standing.drain or standing.quarantined:
                return LeaseReply(leases=[], drain=standing.drain)
            unheard = [] if holding is None else Leases(session).unheard(worker_id, device_uuid, holding)
            searches = Archive(session).at_work()
        slot = Slot(
            worker_id=worker_id, device=standing.device, lease_s=self._lease_s, connected_since=self._connected_since()
        )
        leases = [
            lease for attempt_id, search_id in unheard[:count] for lease in self._again(search_id, slot, attempt_id)
        ]
        for search_id in searches:
            if len(leases) < count and search_id not in unable and self._roster.fits(search_id, slot.device):
                leases += self._together.ask(search_id, Want(slot=slot, count=count - len(leases)))
        return LeaseReply(leases=leases, drain=False)

    def _again(self, search_id: int, slot: Slot, attempt_id: int) -> list[Lease]:
        """A lease that was granted by an answer which never arrived: the same one."""
        with self._roster.turn(search_id) as turn:
            return [] if turn is None else claims.again(turn, slot, attempt_id, self._clock())

    def _serve(self, search_id: int, wants: Sequence[Want]) -> list[list[Lease]]:
        """What each is given of a search."""
        for _ in range(MAX_RACES):
            try:
                with self._roster.turn(search_id) as turn:
                    return [[] for _ in wants] if turn is None else self._lease(turn, wants)
            except StrategyFailed as error:
                self._roster.fail(search_id, str(error))
            except IntegrityError:
                log.warning("claim lost a race", search=search_id)
        return [[] for _ in wants]

    def _lease(self, turn: Turn, wants: Sequence[Want]) -> list[list[Lease]]:
        if turn.active.state not in {"running", "stopping", "ablating"}:
            return [[] for _ in wants]
        endgame.follow(turn, self._clock())
        granted = [claims.queued(turn, want.slot, self._clock(), want.count) for want in wants]
        if turn.active.state == "running":
            more = [want.count - len(attempts) for want, attempts in zip(wants, granted, strict=True)]
            proposals = [claims.proposed(turn, self._clock, count) for count in more]
            now = self._clock()  # thinking, for whomever, is no part of a lease
            for want, attempts, trials in zip(wants, granted, proposals, strict=True):
                attempts.extend(claims.begun(turn, want.slot, now, trials))
        endgame.follow(turn, self._clock())  # its budget may be used up now
        turn.store()
        return [claims.leases_on(turn, want.slot, each) for want, each in zip(wants, granted, strict=True)]
