"""One device of a worker: claims jobs, performs them one at a time, and reports."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import structlog

from evo.client import Client, ServiceError, ServiceUnreachable
from evo.device import Device
from evo.errors import EvoError, NotFound
from evo.job import Baseline, BaselineReport, Confirm, ConfirmReport, Evaluate, EvaluateReport, Job, Lease, Report
from evo.outcome import Crashed, LaunchFailed
from workers.families import Assignment, Copy, Families, FamilyMismatch
from workers.held import Held
from workers.ladder import Performer, Preparation
from workers.lock import GaveUp, exclusive
from workers.parcel import Outbox
from workers.pipeline import Pending, Pipeline, Prepared
from workers.shipping import Shipping, early
from workers.twins import Twins

POLL_S = 2.0
"""How long one request for work may wait, and so how soon an idle slot notices that it should end."""

AWAY_S = 1.0
"""Pause after the service was away, or a lease could not be worked on."""

MAX_BREAKS = 3
"""How often one job may break this worker (which is not its candidate's fault) before that is its result."""

UNABLE_S = 30.0
"""How long no work is taken for a search whose family this machine cannot reproduce; somebody may mend it."""

_LOG = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class Office:
    """What the slots of a worker share.

    Attributes:
        register: tells a service that forgot it who this worker is.
    """

    client: Client
    worker_id: str
    register: Callable[[], None]
    families: Families
    outbox: Outbox
    held: Held
    stopping: threading.Event


class Slot:
    """The loop of one device. `run` belongs to a thread of its own; `revoke` and `interrupt` may come from others."""

    def __init__(self, device: Device, performer: Performer, office: Office) -> None:
        self.device = device
        self._performer = performer
        self._office = office
        self._pipeline = Pipeline(device.kind, performer, on_built=self._ship_early)
        self._shipping = Shipping()
        self._twins = Twins(office.client)
        self._breaks: Counter[str] = Counter()
        self._unable: dict[int, float] = {}
        self._assignments: dict[int, Assignment] = {}
        self._turn = threading.Lock()
        self._current: Lease | None = None

    def run(self) -> None:
        """Work until stopped, then give back what is still held."""
        stopping = self._office.stopping
        try:
            while not stopping.is_set():
                try:
                    self._step()
                except (ServiceUnreachable, ServiceError) as error:
                    _LOG.warning("service.away", device=self.device.model, reason=str(error))
                    stopping.wait(AWAY_S)
        finally:
            self._pipeline.close()
            for pending in self._pipeline.empty():
                self._release(pending.lease, "the worker ends")
            self._performer.close()

    def revoke(self, attempt_ids: set[int]) -> None:
        """Stop the job that is performed now, if it is one of these."""
        with self._turn:
            if self._current is not None and self._current.attempt_id in attempt_ids:
                self._performer.interrupt()

    def interrupt(self) -> None:
        """Stop whatever is performed now; once the worker is stopping it is given back."""
        self._performer.interrupt()

    def _step(self) -> None:
        if not self._office.outbox.flush():
            self._office.stopping.wait(AWAY_S)
        elif self._pipeline.room and not self._office.held.drain:
            self._claim(self._pipeline.room)
        elif not self._pipeline:
            self._office.stopping.wait(AWAY_S)
        if self._pipeline:
            self._finish(self._pipeline.next())

    def _claim(self, count: int) -> None:
        office, wait_s = self._office, 0.0 if self._pipeline else POLL_S
        try:
            given = office.client.lease(
                office.worker_id,
                self.device.uuid,
                count=count,
                wait_s=wait_s,
                holding=[lease.attempt_id for lease in office.held.leases],
                unable=[search_id for search_id, until_s in self._unable.items() if time.monotonic() < until_s],
            )
        except NotFound:
            office.register()
            return
        office.held.drain = given.drain
        office.held.take(given.leases)
        for lease in given.leases:
            try:
                copy = office.families.get(lease.terms.family)
            except FamilyMismatch as error:
                _LOG.warning("search.unable", search=lease.terms.search_id, reason=str(error))
                self._unable[lease.terms.search_id] = time.monotonic() + UNABLE_S
                self._release(lease, str(error))
            else:
                self._twins.expect(lease)
                self._pipeline.add(lease, self._assignment(lease, copy))

    def _assignment(self, lease: Lease, copy: Copy) -> Assignment:
        """The one all leases of a search share, with what was worked out for it."""
        search_id = lease.terms.search_id
        if search_id not in self._assignments:
            self._assignments = {search_id: Assignment(terms=lease.terms, copy=copy)}
        return self._assignments[search_id]

    def _finish(self, pending: Pending) -> None:
        """From a built job to a delivered report; nothing that goes wrong ends the slot."""
        lease = pending.lease
        built: Preparation = {}
        try:
            prepared = pending.building.result()
            built = prepared.built
            report = None if self._office.held.revoked(lease) else self._perform(pending, prepared)
        except GaveUp:
            self._drop(lease)
        except EvoError as error:
            self._broken(lease, str(error))
        except Exception as error:  # noqa: BLE001 - a bug of ours is no bad candidate, and must not end the worker
            _LOG.exception("job.broken", attempt=lease.attempt_id)
            self._broken(lease, f"{type(error).__name__}: {error}")
        else:
            if report is not None:
                self._deliver(lease, report, built)
            self._office.held.drop(lease)
        finally:
            for each in built.values():
                each.discard()

    def _perform(self, pending: Pending, prepared: Prepared) -> Report:
        lease, begun_s, lock_s = pending.lease, time.monotonic(), 0.0
        report: Report | None = self._twin(lease, prepared.built)
        if report is None:
            with exclusive(self.device.uuid, unwanted=self._unwanted(lease)) as lock_s, self._performing(lease):
                report = self._performer.perform(pending.work, lease.job, prepared.built)
        wait_s = prepared.begun_s - pending.claimed_s + begun_s - prepared.ended_s + lock_s
        total_s = time.monotonic() - pending.claimed_s
        return replace(report, stages=replace(report.stages, wait_s=wait_s, total_s=total_s))

    def _twin(self, lease: Lease, built: Preparation) -> EvaluateReport | None:
        """The report of a trial whose binary was the same, as this one's."""
        mine = built.get("candidate")
        if mine is None or mine.digest is None:
            return None
        twin = self._twins.find(lease, mine.digest)
        if twin is None:
            return None
        stages = replace(twin.stages, render_s=mine.render_s, compile_s=mine.compile_s, verify_s=0.0, measure_s=0.0)
        environment = {**twin.environment, "binary": "measured with an earlier trial"}
        return replace(twin, stages=stages, environment=environment)

    def _deliver(self, lease: Lease, report: Report, built: Preparation) -> None:
        if self._unwanted(lease)() and (self._office.held.revoked(lease) or _died(report)):
            self._drop(lease)
            return
        if isinstance(report, EvaluateReport):
            self._twins.note(lease.terms.search_id, report)
            _LOG.info("trial", search=lease.terms.search_id, **_summary(lease, report))
        self._office.outbox.send(self._shipping.pack(lease, report, built))

    def _unwanted(self, lease: Lease) -> Callable[[], bool]:
        """Whether the service took the lease back, or the worker ends."""
        return lambda: self._office.stopping.is_set() or self._office.held.revoked(lease)

    def _drop(self, lease: Lease) -> None:
        """Let go of a lease without a result; one that was not revoked is given back."""
        if self._office.held.revoked(lease):
            self._office.held.drop(lease)
        else:
            self._release(lease, "the worker ends")

    def _ship_early(self, built: Preparation) -> None:
        """Sources and logs travel while other jobs are built; what fails to is sent again with the report."""
        with suppress(EvoError):
            self._office.outbox.upload(early(built))

    def _broken(self, lease: Lease, reason: str) -> None:
        """Give a job back that could not be done here, or say so for good when that goes on."""
        job = f"{lease.terms.search_id} {lease.job}"
        self._breaks[job] += 1
        _LOG.warning("job.given_back", attempt=lease.attempt_id, reason=reason)
        if self._breaks[job] < MAX_BREAKS:
            self._release(lease, reason)
            self._office.stopping.wait(AWAY_S)
        else:
            self._office.outbox.send(self._shipping.pack(lease, _failure(lease.job, reason), {}))
            self._office.held.drop(lease)

    def _release(self, lease: Lease, reason: str) -> None:
        self._office.held.drop(lease)
        try:
            self._office.client.release(lease.attempt_id, lease.token, reason=reason)
        except EvoError as error:  # it expires by itself
            _LOG.warning("release.failed", attempt=lease.attempt_id, reason=str(error))

    @contextmanager
    def _performing(self, lease: Lease) -> Iterator[None]:
        with self._turn:
            self._current = lease
        try:
            yield
        finally:
            with self._turn:
                self._current = None


def _died(report: Report) -> bool:
    """Whether the report may tell of our own kill rather than of the candidate."""
    match report:
        case EvaluateReport():
            return isinstance(report.outcome, Crashed)
        case ConfirmReport():
            return isinstance(report.failure, Crashed)
        case BaselineReport():
            return not report.timings


def _failure(job: Job, reason: str) -> Report:
    match job:
        case Evaluate():
            return EvaluateReport(outcome=LaunchFailed(reason=reason))
        case Baseline():
            return BaselineReport(timings={}, unavailable={"all": reason})
        case Confirm():
            return ConfirmReport(failure=LaunchFailed(reason=reason), failed="challenger")


def _summary(lease: Lease, report: EvaluateReport) -> dict[str, object]:
    stages = report.stages
    spent = stages.compile_s + stages.verify_s + stages.measure_s + stages.wait_s
    return {
        "number": lease.job.number if isinstance(lease.job, Evaluate) else None,
        "outcome": report.outcome.kind,
        "overhead_ms": round((stages.total_s - spent) * 1e3, 1),
    }
