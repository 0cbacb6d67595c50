"""Runs the searches: leases work, accepts results, expires leases, and finishes searches.

A conductor keeps each search in memory, and stores every change before it responds, so that a killed service can
continue. Conductors in several processes change a search one after the other, see `api.scheduler.leasing.transaction`.
"""

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

import structlog
from sqlalchemy.orm import Session

from api.families import Catalogue
from api.operations.failures import Failures
from api.scheduler import lifecycle
from api.scheduler.active import Clock, Lost, nothing_lost, utc_now
from api.scheduler.commands import Commands
from api.scheduler.expiry import Expiry
from api.scheduler.leasing.assignment import Dispatch
from api.scheduler.leasing.queue import ReceiptOrRefusal, WorkQueue
from api.scheduler.registry import Registry, stuck
from api.scheduler.results.reports import ResultReceiver, answer
from api.schemas import LeaseReply, Receipt
from db.engine.session import Database, StoreUnavailable
from db.engine.signals import WORK
from db.models import AttemptState
from db.repositories.archive import Archive
from db.repositories.coordination import Coordination
from db.repositories.deliveries import Deliveries
from db.repositories.fleet import Fleet, Superseded, check_incarnation
from db.repositories.leases import Leases
from db.repositories.tokens import SLACK, Tokens
from evo.device import Device
from evo.errors import EvoError
from evo.messages.job import Answer, Delivery, HeartbeatReply, SlotReport
from evo.messages.worker_state import SILENT_S
from evo.trial.results import Report

log = structlog.get_logger("conductor")


class Conductor:
    """Facade of the scheduler. Methods may be called from any thread.

    Args:
        lease_s: seconds without a heartbeat after which the jobs of a worker are given to other workers.
        on_work: function to call when work may have become available for waiting workers.
        lost_s: function that returns the total wall-clock seconds in which this process did not run since its start.

    Attributes:
        orders: executes commands of users.
    """

    def __init__(
        self,
        database: Database,
        *,
        lease_s: float = 60.0,
        clock: Clock = utc_now,
        on_work: Callable[[], None] = lambda: None,
        lost_s: Lost = nothing_lost,
    ) -> None:
        self.database = database
        self.catalogue = Catalogue()
        self.lease_s = lease_s
        self.clock = clock
        self.registry = Registry(database, self.catalogue, clock, lost_s)
        self._lost_s = lost_s
        self._settled_s = lost_s()
        self._swept = (clock(), lost_s())
        self._away = False
        queue = WorkQueue(self.registry, clock)
        self.orders = Commands(database, self.catalogue, self.registry, clock, connected_since=self.connected_since)
        self._expiry = Expiry(self.registry, clock)
        self._receiver = ResultReceiver(database, self.catalogue, queue)
        self._failures = Failures("search", lambda search_id, reason: self.registry.fail(search_id, stuck(reason)))
        self._dispatch = Dispatch(
            database,
            self.registry,
            queue,
            clock,
            lease_s=lease_s,
            connected_since=self.connected_since,
            failures=self._failures,
        )
        database.signals.subscribe(lambda topic: on_work() if topic == WORK else None)

    def start(self) -> None:
        """Resume every unfinished search.

        If no other service process uses the database, no service ran before this call. That time does not count as
        running time. Workers could not send heartbeats, so each lease gets its full duration again.
        """
        now = self.clock()
        with self.database.write() as session:
            if self.database.alone(session):
                Leases(session).restart(now + timedelta(seconds=self.lease_s))
                Coordination(session).restart_clocks(now)
        self.database.listen()
        self._advance_all()

    # Workers

    def register_worker(
        self,
        worker_id: str,
        *,
        name: str,
        host: str,
        devices: Sequence[Device],
        token_id: str | None = None,
        incarnation: str | None = None,
    ) -> None:
        """Register a worker and its devices. Jobs of an earlier process of the worker are queued again.

        Args:
            token_id: id of the worker's token, which is bound to this worker by the registration, or None.
            incarnation: id of the registering process. None if the client sends no id.

        Raises:
            Conflict: the worker is bound to a different token. Nothing was changed.
        """
        now = self.clock()
        with self.database.write() as session:
            if token_id is not None:
                Tokens(session).bind(token_id, worker_id, now)
            fleet = Fleet(session)
            earlier = fleet.find(worker_id)
            same = earlier is not None and incarnation is not None and earlier.incarnation == incarnation
            alive = fleet.is_connected(worker_id, self.connected_since()) and not same
            # Two processes without an incarnation may both be alive. The jobs of one must not be given to the other.
            speaker = uuid.uuid4().hex if alive and incarnation is None else incarnation
            fleet.register(worker_id, name=name, host=host, devices=devices, now=now, incarnation=speaker)
            leases = [] if same else Leases(session).held_by(worker_id)
            held_attempts = [(attempt.id, attempt.job.search_id) for attempt in leases]
            shared = fleet.sharers(self.connected_since())
            rivals = {each.uuid: [row.id for row in shared.get(each.uuid, ())] for each in devices}
        for device, workers in rivals.items():
            if workers:
                log.warning(
                    "several workers offer one device: measurements may overlap", device=device, workers=workers
                )
        if alive:
            log.warning(
                "a connected worker registered again: it restarted, or two processes use its id", worker=worker_id
            )
        self._lose_all(held_attempts, "abandoned")
        log.info(
            "worker registered", worker=worker_id, devices=[device.model for device in devices], lost=len(held_attempts)
        )

    def leave(self, worker_id: str, *, incarnation: str | None = None) -> None:
        """Record that a worker shuts down. Its devices get no more work, and its jobs are queued again.

        Raises:
            NotFound: the worker is not registered.
            Superseded: another process registered as this worker after the process `incarnation`.
        """
        with self._noting_contest(worker_id), self.database.write() as session:
            Fleet(session).leave(worker_id, self.clock(), seen_since=self.connected_since(), incarnation=incarnation)
            held_attempts = [(attempt.id, attempt.job.search_id) for attempt in Leases(session).held_by(worker_id)]
        self._failures.each(
            held_attempts, lambda each: self._expiry.release(*each, reason="the worker left"), key=lambda each: each[1]
        )
        log.info("worker left", worker=worker_id, released=len(held_attempts))

    def heartbeat(
        self,
        worker_id: str,
        attempts: Sequence[int],
        *,
        slots: Sequence[SlotReport] = (),
        note: str | None = None,
        incarnation: str | None = None,
    ) -> HeartbeatReply:
        """Renew a worker's leases of `attempts`, and store the worker's status.

        The reply lists the leases that the worker must drop, and its quarantined devices. It also states whether the
        worker must not request more work.

        Args:
            note: problems of the worker, which its page shows. None if there are none.

        Raises:
            NotFound: the worker is not registered.
            Superseded: another process registered as this worker after the process `incarnation`.
        """
        now = self.clock()
        with self._noting_contest(worker_id), self.database.write() as session:
            fleet = Fleet(session)
            worker = fleet.worker(worker_id)
            check_incarnation(worker_id, worker, incarnation, self.connected_since())
            worker.seen_at, worker.note = now, note
            renewed = Leases(session).renew(worker_id, attempts, now=now, lease_s=self.lease_s)
            waited = fleet.waiting(worker_id)
            reply = HeartbeatReply(
                cancel=tuple(sorted(set(attempts) - renewed)),
                drain=worker.drain,
                quarantined=fleet.update_slots(worker_id, slots, now),
            )
            changed = Leases(session).searches_of(waited ^ fleet.waiting(worker_id))
        self._failures.each(changed, self._adjust_clock, key=lambda search_id: search_id)
        return reply

    # Leases

    def claim(
        self,
        worker_id: str,
        device_uuid: str,
        count: int = 1,
        holding: Collection[int] | None = None,
        unable: Collection[int] = (),
        *,
        incarnation: str | None = None,
    ) -> LeaseReply:
        """Return up to `count` jobs for one device.

        The jobs come from the searches that the device can run. Searches with higher priority come first, then older
        searches.

        Args:
            holding: ids of the attempts that the worker holds. If the database contains further leases of the device,
                the worker did not receive these leases, and they are returned first. If None, no lease is returned
                again.
            unable: ids of searches whose jobs the worker cannot execute.

        Raises:
            NotFound: the worker or the device is not registered.
            Superseded: another process registered as this worker after the process `incarnation`.
        """
        with self._noting_contest(worker_id):
            return self._dispatch.claim(worker_id, device_uuid, count, holding, unable, incarnation=incarnation)

    def report(self, attempt_id: int, token: str, report: Report) -> Receipt:
        """Accept the result of an attempt, and return the receipt. A repeated delivery has no effect.

        Raises:
            NotFound: the attempt does not exist.
            StaleLease: the lease had already ended, so the result was discarded.
            InvalidInput: the report does not fit the job.
        """
        (receipt,) = self._take([Delivery(attempt_id=attempt_id, token=token, report=report)])
        if isinstance(receipt, EvoError):
            raise receipt
        return receipt

    def report_many(self, deliveries: Sequence[Delivery]) -> list[Answer]:
        """Accept several results, each once. Return the responses in the same order."""
        return [
            answer(delivery, receipts) for delivery, receipts in zip(deliveries, self._take(deliveries), strict=True)
        ]

    def release(self, attempt_id: int, token: str, reason: str = "", *, unfit: bool = False) -> None:
        """End a lease that a worker returns. The job is queued again.

        Args:
            unfit: True if the worker cannot execute any job of the search. The search then shows `reason` until one of
                its jobs is leased or executed.
        """
        with self.database.read() as session:
            search_id = Leases(session).attempt(attempt_id, token).job.search_id
        self._expiry.release(attempt_id, search_id, reason, unfit=unfit)

    def sweep(self) -> None:
        """Expire leases and apply all time limits. The service calls this method every few seconds.

        Raises:
            StoreUnavailable: the database cannot be used now. The time until it can be used again does not count as
                silence of workers.
        """
        try:
            self._sweep()
        except StoreUnavailable:
            self._away = True
            raise
        self._swept, self._away = (self.clock(), self._lost_s()), False

    def _sweep(self) -> None:
        self._settle_interruption()
        with self.database.read() as session:
            expired = [(row.id, row.job.search_id) for row in Leases(session).expired(self.clock())]
            patient = Leases(session).patient_confirmations(self.clock())
        self._lose_all(expired, "expired")
        if patient:
            self.database.signals.notify(WORK)
        self._advance_all()
        with self.database.write() as session:
            Coordination(session).note_alive(self.clock())
            Coordination(session).reset_obstacles_ahead(self.clock())

    def connected_since(self) -> datetime:
        """Return the time after which a worker must have sent a request to count as connected."""
        return self.clock() - timedelta(seconds=max(self.lease_s, SILENT_S))

    # Interruptions

    def _settle_interruption(self) -> None:
        """Exclude time in which this service did not run from leases, running times and other stored durations.

        During that time, workers could not reach the service and searches did not run. While the database was
        unavailable, workers could not renew their leases either. If the clock was set back, a stored time may be too
        far in the future. Such times are moved back.
        """
        now, lost_s = self.clock(), self._lost_s()
        missed_s, away_s = lost_s - self._settled_s, self._away_s(now, lost_s)
        latest = now + timedelta(seconds=self.lease_s)
        with self.database.read() as session:
            deliveries_ahead = Deliveries(session).any_ahead(now, SLACK)
            leases_ahead = Leases(session).any_after(latest + SLACK)
            ahead = deliveries_ahead or leases_ahead or Fleet(session).any_after(now + SLACK)
            others = missed_s != 0.0 and self.database.others(session)
            ran_on = others and self._others_ran(session, missed_s)
        if missed_s == 0.0 and away_s == 0.0 and not ahead:
            return
        later = timedelta(seconds=max(0.0, missed_s) + away_s)
        with self.database.write() as session:
            Leases(session).put_off(later, latest=latest)
            Fleet(session).put_off(later, now=now, since=self.connected_since())
            if missed_s < 0.0 and not others:
                Deliveries(session).bring_forward(timedelta(seconds=-missed_s))
            elif deliveries_ahead:
                Deliveries(session).reset_ahead(now, SLACK)
        if missed_s != 0.0 and not ran_on:
            self._failures.each(self.registry.revisions(), self._settle_clock, key=lambda search_id: search_id)
        self._settled_s = lost_s

    def _away_s(self, now: datetime, lost_s: float) -> float:
        """Return the seconds since the last successful sweep, or 0 if no sweep has failed since then.

        Time in which this process did not run is not included.
        """
        swept_at, lost_before_s = self._swept
        return max(0.0, (now - swept_at).total_seconds() - (lost_s - lost_before_s)) if self._away else 0.0

    def _others_ran(self, session: Session, missed_s: float) -> bool:
        """Return True if another process ran the searches while this process did not run, or if the clock was set back.

        If all processes stopped, for example because the machine slept, the first process that continues adjusts the
        stored times for all processes.

        Args:
            missed_s: seconds in which this process did not run; negative if the clock was set back.
        """
        alive_at = Coordination(session).alive_at()
        return missed_s < 0.0 or (alive_at is not None and (self.clock() - alive_at).total_seconds() < missed_s / 2.0)

    def _settle_clock(self, search_id: int) -> None:
        with self.registry.transaction(search_id) as transaction:
            if transaction is not None:
                transaction.active.settle_clock(Archive(transaction.session).search(search_id), self.clock())

    def _adjust_clock(self, search_id: int) -> None:
        with self.registry.transaction(search_id) as transaction:
            if transaction is not None:
                lifecycle.adjust_clock(transaction, self.clock())

    @contextmanager
    def _noting_contest(self, worker_id: str) -> Iterator[None]:
        """Context manager. If the block raises `Superseded`, record that two processes use one worker id."""
        try:
            yield
        except Superseded as error:
            log.warning("two processes use the id of one worker", worker=worker_id, reason=str(error))
            with self.database.write() as session:
                Fleet(session).contest(worker_id, self.clock())
            raise

    def _take(self, deliveries: Sequence[Delivery]) -> list[ReceiptOrRefusal]:
        receipts, changed = self._receiver.take(deliveries)
        self._failures.each(changed, self._advance_one, key=lambda search_id: search_id)
        return receipts

    def _lose_all(self, leases: Iterable[tuple[int, int]], how: AttemptState) -> None:
        """End leases without a result. A lease is given as (attempt id, search id), and `how` is its final state."""

        def lose(lease: tuple[int, int]) -> None:
            attempt_id, search_id = lease
            self._expiry.lose(attempt_id, search_id, how)
            self._advance_one(search_id)

        self._failures.each(leases, lose, key=lambda lease: lease[1])

    def _advance_all(self) -> None:
        def advance(search: tuple[int, int]) -> None:
            if self.registry.is_due(*search):
                self._advance_one(search[0])

        self._failures.each(self.registry.revisions().items(), advance, key=lambda search: search[0])

    def _advance_one(self, search_id: int) -> None:
        with self.registry.transaction(search_id) as transaction:
            if transaction is not None:
                lifecycle.follow(transaction, self.clock())
