"""Runs the searches: hands out work, takes in reports, notices lost workers, and moves every search to its end.

One conductor owns all searches of a database. It keeps each in memory under a lock of its own and writes every step
to the database before anyone hears of it, so a killed service goes on where it stopped.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import timedelta

import structlog
from sqlalchemy.exc import IntegrityError

from api import endgame
from api.active import ActiveSearch, Clock, utc_now
from api.catalogue import Catalogue
from api.claims import Slot, StrategyFailed, lease_again, lease_proposal, lease_queued
from api.roster import Roster
from api.schemas import LeaseReply, Receipt, SearchRequest
from api.settlement import end_trial, settle
from api.submission import terms_of
from db.archive import Archive
from db.events import Events
from db.fleet import Fleet
from db.leases import Leases, StaleLease
from db.models import AttemptState, Webhook
from db.session import Database
from evo.device import Device
from evo.errors import InvalidInput, NotFound
from evo.job import Answer, Baseline, Delivery, Evaluate, HeartbeatReply, Lease, Report, SlotReport
from evo.lifecycle import TERMINAL, Command, State, transition
from evo.outcome import Abandoned

log = structlog.get_logger("conductor")

UNFINISHED: tuple[State, ...] = ("running", "paused", "stopping")
CONNECTED_LEASES = 3
"""A worker that was silent for as many leases no longer offers its devices to new searches."""

MAX_RACES = 3
"""How often a claim that lost a race is tried again with a fresh view of the search."""


class Conductor:
    """All methods may be called from any thread.

    Args:
        lease_s: seconds a worker may be silent before its work is given to another.
        on_work: called when work may have become available to waiting workers.
    """

    def __init__(
        self,
        database: Database,
        *,
        lease_s: float = 60.0,
        clock: Clock = utc_now,
        on_work: Callable[[], None] = lambda: None,
    ) -> None:
        self.database = database
        self.catalogue = Catalogue()
        self.lease_s = lease_s
        self.clock = clock
        self._on_work = on_work
        self.roster = Roster(database, self.catalogue, clock)
        self._devices: dict[str, dict[str, Device]] = {}

    def start(self) -> None:
        """Take up every unfinished search where it was left; the time nobody ran them does not count."""
        now = self.clock()
        with self.database.write() as session:
            archive = Archive(session)
            for row in archive.searches(states=UNFINISHED):
                self.roster.add(row.id, row.priority)
                if row.active_since is not None:
                    last_seen = archive.last_event(row.id) or row.active_since
                    row.active_s += max(0.0, (last_seen - row.active_since).total_seconds())
                    row.active_since = now
        self._advance_all()

    # Searches

    def submit(self, request: SearchRequest, webhook: Webhook | None = None) -> int:
        """Store a new search with its first job, and begin; returns its id.

        Raises:
            NotFound, InvalidInput, Conflict: unknown family, wrong terms, an empty space, or no such device here.
        """
        now = self.clock()
        with self.database.read() as session:
            connected_since = now - timedelta(seconds=CONNECTED_LEASES * self.lease_s)
            row = terms_of(session, request, self.catalogue, connected_since)
        with self.database.write() as session:
            row.created_at, row.webhook = now, webhook
            session.add(row)
            session.flush()
            Leases(session).queue(row.id, Baseline(), now=now)
            Events(session).search_changed(row.id)
        self.roster.add(row.id, row.priority)
        log.info("search submitted", search=row.id, family=row.family.name, problem=row.problem_key)
        self._on_work()
        return row.id

    def command(self, search_id: int, command: Command) -> None:
        """Pause, resume, stop or cancel a search; asking for the present state again changes nothing.

        Raises:
            NotFound, Conflict: no such search, or the command does not fit its state.
        """
        with self.roster.held(search_id) as active:
            if active is None:
                with self.database.read() as session:
                    transition(Archive(session).search(search_id).state, command)
                return
            if transition(active.state, command) != active.state:
                log.info("search commanded", search=search_id, command=command)
                self._obey(active, command)
        self._on_work()

    def prefer(self, search_id: int, priority: int) -> None:
        """From now on workers serve this search before those of lower priority; the database knows already."""
        self.roster.prefer(search_id, priority)

    def _obey(self, active: ActiveSearch, command: Command) -> None:
        reason = {"stop": endgame.STOPPED, "cancel": "cancelled"}.get(command)
        with self.database.write() as session:
            endgame.change_state(session, active, command, self.clock(), reason=reason)
        self._advance(active)

    # Workers

    def register_worker(self, worker_id: str, *, name: str, host: str, devices: Sequence[Device]) -> None:
        """Note a worker and its devices. Whatever it held before it was started again is lost, and queued at once."""
        with self.database.read() as session:
            held = [(attempt.id, attempt.job.search_id) for attempt in Leases(session).held_by(worker_id)]
        for attempt_id, search_id in held:
            self._lose(attempt_id, search_id, "abandoned")
        with self.database.write() as session:
            Fleet(session).register(worker_id, name=name, host=host, devices=devices, now=self.clock())
        self._devices[worker_id] = {device.uuid: device for device in devices}
        log.info("worker registered", worker=worker_id, devices=[device.model for device in devices], lost=len(held))

    def leave(self, worker_id: str) -> None:
        """A worker ends in order: its devices are gone, and what it still holds waits for the next one."""
        with self.database.write() as session:
            Fleet(session).leave(worker_id, self.clock())
            held = [(attempt.id, attempt.token) for attempt in Leases(session).held_by(worker_id)]
        self._devices.pop(worker_id, None)
        for attempt_id, token in held:
            self.release(attempt_id, token, reason="the worker left")
        log.info("worker left", worker=worker_id, released=len(held))

    def heartbeat(
        self, worker_id: str, attempts: Sequence[int], *, slots: Sequence[SlotReport] = (), note: str | None = None
    ) -> HeartbeatReply:
        """Renew a worker's leases, note what it says of itself, and tell it what the service wants it to know."""
        now = self.clock()
        with self.database.write() as session:
            fleet = Fleet(session)
            worker = fleet.worker(worker_id)
            worker.seen_at, worker.note = now, note
            standing = Leases(session).renew(worker_id, attempts, now=now, lease_s=self.lease_s)
            return HeartbeatReply(
                cancel=tuple(sorted(set(attempts) - standing)),
                drain=worker.drain,
                quarantined=fleet.hear(worker_id, slots, now),
            )

    # Leases

    def claim(
        self,
        worker_id: str,
        device_uuid: str,
        count: int = 1,
        holding: Collection[int] | None = None,
        unable: Collection[int] = (),
    ) -> LeaseReply:
        """Up to `count` jobs for one device of a worker, of the oldest search it can work for.

        Args:
            holding: the attempts this worker knows of; those it was granted and never heard of come first.
            unable: searches it cannot work for.

        Raises:
            NotFound: the worker, or this device of it, is not registered.
        """
        slot = self._slot(worker_id, device_uuid)
        with self.database.read() as session:
            if Fleet(session).worker(worker_id).drain:
                return LeaseReply(leases=[], drain=True)
            if Fleet(session).device(worker_id, device_uuid).quarantined_at is not None:
                return LeaseReply(leases=[], drain=False)
        leases = [] if holding is None else self._unheard(slot, holding)[:count]
        for search_id in self.roster.ids:
            if search_id in unable:
                continue
            while len(leases) < count and (lease := self._claim(search_id, slot)) is not None:
                leases.append(lease)
        return LeaseReply(leases=leases, drain=False)

    def report(self, attempt_id: int, token: str, report: Report) -> Receipt:
        """Take in the result of an attempt: once, the same answer when it is repeated.

        Raises:
            NotFound: no such attempt.
            StaleLease: the lease ended before; nothing is counted.
            InvalidInput: the report does not answer the job.
        """
        with self.database.read() as session:
            attempt = Leases(session).attempt(attempt_id, token)
        if attempt.state == "done":
            return Receipt(repeated=True)
        with self.roster.held(attempt.job.search_id) as active:
            if active is None:
                raise StaleLease(f"search {attempt.job.search_id} has ended: drop this work")
            delivery = Delivery(attempt_id=attempt_id, token=token, report=report)
            settle(self.database, active, delivery, self.clock())
            self._advance(active)
            wake = active.has_queued
        if wake:
            self._on_work()
        return Receipt()

    def report_many(self, deliveries: Sequence[Delivery]) -> list[Answer]:
        """Take in several results, each as `report` does; answers in their order."""
        return [self._answered(delivery) for delivery in deliveries]

    def release(self, attempt_id: int, token: str, reason: str = "") -> None:
        """Take a lease back without blaming anyone; its job waits for the next worker."""
        with self.database.read() as session:
            attempt = Leases(session).attempt(attempt_id, token)
        with self.roster.held(attempt.job.search_id) as active, self.database.write() as session:
            attempt = Leases(session).attempt(attempt_id, token)
            if active is None or attempt.state != "live":
                return
            Leases(session).end(attempt, "released", now=self.clock())
            attempt.job.state, active.has_queued = "queued", True
        log.info("lease released", attempt=attempt_id, search=attempt.job.search_id, reason=reason)
        self._on_work()

    def sweep(self) -> None:
        """Give up on leases that ran out, and let time itself end what it should; called every few seconds."""
        with self.database.read() as session:
            expired = [(row.id, row.job.search_id) for row in Leases(session).expired(self.clock())]
        for attempt_id, search_id in expired:
            self._lose(attempt_id, search_id, "expired")
        self._advance_all()

    # Inside

    def _answered(self, delivery: Delivery) -> Answer:
        attempt_id = delivery.attempt_id
        try:
            receipt = self.report(attempt_id, delivery.token, delivery.report)
        except StaleLease as error:
            return Answer(attempt_id=attempt_id, status="stale", detail=str(error))
        except NotFound as error:
            return Answer(attempt_id=attempt_id, status="unknown", detail=str(error))
        except InvalidInput as error:
            return Answer(attempt_id=attempt_id, status="refused", detail=str(error))
        return Answer(attempt_id=attempt_id, status="repeated" if receipt.repeated else "accepted")

    def _slot(self, worker_id: str, device_uuid: str) -> Slot:
        if worker_id not in self._devices:
            with self.database.read() as session:
                rows = Fleet(session).devices_of(worker_id)
            self._devices[worker_id] = {row.uuid: row.device for row in rows}
        device = self._devices[worker_id].get(device_uuid)
        if device is None:
            raise NotFound(f"worker {worker_id!r} has not registered a device {device_uuid!r}: register it first")
        return Slot(worker_id=worker_id, device=device, lease_s=self.lease_s)

    def _unheard(self, slot: Slot, holding: Collection[int]) -> list[Lease]:
        """Leases this device was granted by an answer that never arrived: the same ones again."""
        with self.database.read() as session:
            mine = [row for row in Leases(session).held_by(slot.worker_id) if row.device_uuid == slot.device.uuid]
        leases = []
        for row in mine:
            if row.id not in holding:
                with self.roster.held(row.job.search_id) as active:
                    lease = None if active is None else lease_again(self.database, active, slot, row.id, self.clock())
                leases += [] if lease is None else [lease]
        return leases

    def _claim(self, search_id: int, slot: Slot) -> Lease | None:
        for _ in range(MAX_RACES):
            try:
                with self.roster.held(search_id) as active:
                    return None if active is None else self._lease(active, slot)
            except StrategyFailed as error:
                self.roster.fail(search_id, str(error))
            except IntegrityError:
                log.warning("claim lost a race", search=search_id)
        return None

    def _lease(self, active: ActiveSearch, slot: Slot) -> Lease | None:
        if not active.serves(slot.device):
            return None
        self._advance(active)
        lease = lease_queued(self.database, active, slot, self.clock())
        if lease is None and active.state == "running":
            lease = lease_proposal(self.database, active, slot, self.clock())
            if lease is None:
                self._advance(active)  # exhausted
        return lease

    def _lose(self, attempt_id: int, search_id: int, how: AttemptState) -> None:
        """A worker is gone: its job goes back to the queue, or is given up when that happened too often."""
        with self.roster.held(search_id) as active:
            if active is None:
                return
            now = self.clock()
            with self.database.write() as session:
                attempt = Leases(session).live_or_none(attempt_id)
                if attempt is None or (how == "expired" and attempt.expires_at >= now):
                    return
                Leases(session).end(attempt, how, now=now)
                job = attempt.job
                job.worker_losses += 1
                if job.worker_losses < active.terms.policy.max_worker_losses:
                    job.state, active.has_queued = "queued", True
                else:
                    job.state, job.ended_at = "abandoned", now
                    if isinstance(job.payload, Evaluate):
                        abandoned = Abandoned(worker_losses=job.worker_losses)
                        pending = active.search.history.pending[job.payload.number]
                        end_trial(session, active, replace(pending, outcome=abandoned), now=now)
            log.warning("worker lost", attempt=attempt_id, search=search_id, how=how, losses=job.worker_losses)
            self._advance(active)
        self._on_work()

    def _advance_all(self) -> None:
        for search_id in self.roster.ids:
            try:
                with self.roster.held(search_id) as active:
                    if active is not None:
                        self._advance(active)
            except Exception:  # one search must not keep the others from going on
                log.exception("search could not be moved on", search=search_id)

    def _advance(self, active: ActiveSearch) -> None:
        endgame.advance(self.database, active, self.clock())
        if active.state in TERMINAL:
            self.roster.remove(active.id)
            log.info("search ended", search=active.id, state=active.state)
