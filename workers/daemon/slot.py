"""Slot: claims jobs for one device, executes them one at a time, and reports their results."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

import structlog

from evo.client import ServiceError, ServiceUnreachable
from evo.device import Device
from evo.errors import EvoError
from evo.messages.job import Activity, Lease, SlotReport
from evo.trial.results import EvaluateReport, Report
from workers.build.families import Assignment
from workers.daemon.claims import Claims, WorkerContext
from workers.daemon.health import Health
from workers.daemon.idle_clock import IdleClock
from workers.daemon.pipeline import Pending, Performed, Pipeline, Prepared
from workers.delivery.backoff import Backoff
from workers.delivery.report import died, doubtful, failure, job_of, refused, summary
from workers.delivery.shipping import Shipping
from workers.jobs.evaluation import Duplicates, Performer, Preparation
from workers.jobs.stopwatch import Status
from workers.runner.pool import TroubleError, UnfitError
from workers.system.descendants import descends_from_here
from workers.system.device_lock import GaveUp, exclusive, log_busy
from workers.system.exhaustion import MachineExhausted, is_exhaustion, with_remedy

PAUSE_S, LONGEST_PAUSE_S = 1.0, 10.0
"""Minimum and maximum pause in seconds while the service is unavailable, or after a job failed on this machine."""

MEND_S, LONGEST_MEND_S = 5.0, 60.0
"""Minimum and maximum pause in seconds after a known-good kernel failed on the device or the disk was unusable."""

MOST_BROKEN = 1000
"""Maximum number of jobs whose failures are counted. When it is reached, all counts are reset."""

LONGEST_REASON = 2_000
"""Maximum number of characters of a reason that the service accepts."""

FEW_JOBS = 2
"""Number of jobs in the first request after an idle time: the baselines and the first candidate of a new search."""

MAX_BREAKS = 3
"""A job is reported as failed after this many failures on this worker that were not the candidate's fault."""

_LOG = structlog.get_logger()


class Slot:
    """Runs the jobs of one device, one at a time: claims a job, executes it, and reports the result.

    `run` needs its own thread. The other methods may be called from any thread.

    Args:
        status: object with the current step of a long job. The `Performer` sets the step, and heartbeats report it.
            If None, a new object is created.
    """

    def __init__(
        self, device: Device, performer: Performer, context: WorkerContext, status: Status | None = None
    ) -> None:
        self.device = device
        self._status = status or Status()
        self._performer = performer
        self._context = context
        self._meter = IdleClock()
        self._pipeline = Pipeline(device.kind, performer, self._meter)
        self._claims = Claims(
            device.uuid, context, self._meter, release=self._release, unfit=partial(self._release, unfit=True)
        )
        self._shipping = Shipping()
        self._duplicates = Duplicates(context.client)
        self._health = Health()
        self._breaks: Counter[str] = Counter()
        self._away = Backoff(context.stopping, first_s=PAUSE_S, longest_s=LONGEST_PAUSE_S)
        self._mending = Backoff(context.stopping, first_s=MEND_S, longest_s=LONGEST_MEND_S)
        self._lock = threading.Lock()
        self._current: Lease | None = None
        self._awaiting: Lease | None = None
        self._doing: tuple[Activity, str | None] = ("idle", None)
        self._fault: str | None = None
        self._set_aside = False
        self._idle = True

    def run(self) -> None:
        """Execute jobs until the worker stops. Then return the remaining leases to the service."""
        stopping = self._context.stopping
        try:
            while not stopping.is_set():
                try:
                    self._step()
                except (ServiceUnreachable, ServiceError) as error:
                    _LOG.warning("a request to the service failed", device=self.device.model, reason=str(error))
                    self._away.wait()
                    self._meter.take()
                else:
                    self._away.reset()
        finally:
            self._claims.close()
            self._pipeline.close()
            self._give_back("the worker ends")
            self._performer.close()

    def revoke(self, attempt_ids: set[int]) -> None:
        """Stop the current job if its lease is among the given attempts."""
        with self._lock:
            if self._current is not None and self._current.attempt_id in attempt_ids:
                self._performer.interrupt()

    def interrupt(self) -> None:
        """Stop the current job."""
        with self._lock:
            self._performer.interrupt()

    @property
    def report(self) -> SlotReport:
        """Return the state of the slot for a heartbeat."""
        activity, detail = self._doing
        with self._lock:
            lease = self._awaiting if activity == "waiting" else self._current
            attempt_id = None if lease is None else lease.attempt_id
            if activity == "working":
                detail = self._status.words
        return SlotReport(
            device_uuid=self.device.uuid, activity=activity, detail=detail, attempt_id=attempt_id, fault=self._fault
        )

    def acknowledge(self, report: SlotReport, *, set_aside: bool) -> None:
        """Apply the service's reply to the heartbeat that contained `report`.

        The reply is ignored if the slot has a fault that `report` does not contain, because the service does not know
        this fault yet.

        Args:
            set_aside: True if the service keeps the device in quarantine.
        """
        if self._fault is None or report.fault is not None:
            self._set_aside, self._fault = set_aside, None

    # The loop

    def _step(self) -> None:
        if self._fault is not None or self._set_aside:
            self._stand_aside()
            return
        self._add(self._claims.collect(wait=not self._pipeline))
        if self._wants_more():
            if self._pipeline:
                self._claims.ask_ahead(self._pipeline.room)
            else:
                self._doing = ("idle", None)
                self._ask()
        elif not self._pipeline:
            self._context.stopping.wait(PAUSE_S)
            self._meter.take()
        if self._pipeline and (pending := self._pipeline.next(self._has_news)) is not None:
            if not self._pipeline and not self._pipeline.in_order and self._wants_more():
                self._claims.ask_ahead(self._pipeline.room)  # while the last job is executed
            self._finish(pending)

    def _has_news(self) -> bool:
        """Return True if the slot must stop, or if new jobs have arrived, whose builds can start now."""
        return self._context.stopping.is_set() or self._claims.arrived

    def _ask(self) -> None:
        """Request jobs from the service, and add them to the pipeline.

        The first request after an idle time is for a few jobs only, because the service needs about a second to propose
        many trials of a new search.
        """
        few, self._idle = self._idle, False
        self._add(self._claims.ask(min(FEW_JOBS, self._pipeline.room) if few else self._pipeline.room))
        if not self._pipeline:
            self._idle = True
        elif few and self._wants_more():
            self._add(self._claims.ask(self._pipeline.room, wait_s=0.0))

    def _wants_more(self) -> bool:
        held, outbox = self._context.held, self._context.outbox
        if not self._pipeline.room or held.drain or held.closing:
            return False
        return outbox.flush() if self._pipeline.in_order else not outbox.stuck

    def _add(self, leases: Sequence[tuple[Lease, Assignment]]) -> None:
        for lease, _ in leases:
            self._duplicates.expect(lease)
        self._pipeline.add(leases)

    def _stand_aside(self) -> None:
        """Give all leases back to the service, and pause, because the device is quarantined."""
        if self._doing[0] != "quarantined":
            _LOG.error("the device is quarantined", device=self.device.model, uuid=self.device.uuid, reason=self._fault)
        self._doing = ("quarantined", None)
        for lease, _ in self._claims.collect(wait=True):
            self._release(lease, "the device is quarantined")
        self._give_back("the device is quarantined")
        self._health.forget()
        self._context.stopping.wait(PAUSE_S)
        self._meter.take()

    def _finish(self, pending: Pending) -> None:
        """Wait for the build of a job, execute the job, and queue its result for delivery.

        If the job has no result, give the lease back to the service, unless it was revoked.
        """
        lease = pending.lease
        built: Preparation = {}
        try:
            prepared = pending.building.result()
            built = prepared.built
            report = None if self._context.held.revoked(lease) else self._perform(pending, prepared)
        except GaveUp:
            self._drop(lease)
        except UnfitError as error:
            self._mistrust(lease, str(error))
        except MachineExhausted as error:
            self._exhausted(lease, str(error))
        except (ServiceUnreachable, ServiceError) as error:  # the job is not at fault
            self._release(lease, str(error))
        except EvoError as error:
            self._broken(lease, str(error))
        except Exception as error:  # noqa: BLE001 - a bug must neither end the worker nor count as a fault of the candidate
            if is_exhaustion(error):
                self._exhausted(lease, with_remedy(error, f"this machine cannot write files: {error}"))
                return
            _LOG.exception("unexpected exception in a job", attempt=lease.attempt_id)
            self._broken(lease, f"{type(error).__name__}: {error}")
        else:
            if report is not None:
                self._deliver(lease, report, built)
            self._context.held.drop(lease)
        finally:
            for each in built.values():
                each.discard()

    def _perform(self, pending: Pending, prepared: Prepared) -> Report:
        lease, begun_s, still_s = pending.lease, time.monotonic(), self._meter.take()
        with self._meter.working():
            done = self._duplicate(lease, prepared.built)
            if done is None and refused(lease.job, prepared.built):
                done = Performed(report=self._performer.perform(pending.work, lease.job, prepared.built))
            elif done is None:
                done = self._measure(pending, prepared.built)
        return done.accounted(pending, prepared, begun_s=begun_s, ended_s=time.monotonic(), still_s=still_s)

    def _measure(self, pending: Pending, built: Preparation) -> Performed:
        lease, proof_s = pending.lease, 0.0
        unwanted = partial(self._unwanted, lease)
        busy = partial(self._busy, lease)
        with exclusive(self.device.uuid, unwanted=unwanted, on_busy=busy) as lock_s, self._performing(lease):
            report = self._performer.perform(pending.work, lease.job, built)
            if doubtful(report) and not self._unwanted(lease):
                self._doing = ("testing", "a known-good kernel must succeed after a crash or an exceeded time limit")
                begun_s = time.monotonic()
                with suppress(TroubleError):  # the family is at fault
                    self._performer.prove(pending.work)
                proof_s = time.monotonic() - begun_s
        self._health.passed()
        self._mending.reset()
        return Performed(report=report, lock_s=lock_s, proof_s=proof_s)

    def _busy(self, lease: Lease, holder: int | None) -> None:
        """Report that `lease` waits for a device that the process `holder` (None if unknown) has locked.

        If the holder is a process of this worker, it runs reference.py, and the slot counts as working.
        """
        if holder is not None and descends_from_here(holder):
            self._status.say("running reference.py")
            self._doing = ("working", None)
            return
        log_busy(holder)
        who = "another process" if holder is None else f"process {holder}"
        self._awaiting, self._doing = lease, ("waiting", f"{who} holds the device")

    def _duplicate(self, lease: Lease, built: Preparation) -> Performed | None:
        """Return the report of an earlier trial with the same binary, with the durations of this build.

        Return None if there is no such trial.
        """
        mine = built.get("candidate")
        if mine is None or mine.digest is None:
            return None
        duplicate = self._duplicates.find(lease, mine.digest)
        if duplicate is None:
            return None
        stages = replace(
            duplicate.stages, render_s=mine.render_s, compile_s=mine.compile_s, verify_s=0.0, measure_s=0.0
        )
        environment = {**duplicate.environment, "binary": "the same as in an earlier trial, whose measurement is used"}
        return Performed(report=replace(duplicate, stages=stages, environment=environment))

    def _deliver(self, lease: Lease, report: Report, built: Preparation) -> None:
        if self._unwanted(lease) and (self._context.held.revoked(lease) or died(report)):
            self._drop(lease)
            return
        if isinstance(report, EvaluateReport):
            self._duplicates.note(lease.terms, report)
            _LOG.info("trial ended", search=lease.terms.search_id, **summary(lease, report))
        self._context.outbox.post(self._shipping.pack(lease, report, built))

    def _unwanted(self, lease: Lease) -> bool:
        """Return True if the lease was revoked or the worker is stopping."""
        return self._context.stopping.is_set() or self._context.held.revoked(lease)

    # Leases without a result

    def _drop(self, lease: Lease) -> None:
        """Drop a lease without a result. Give it back to the service, unless the service has revoked it."""
        if self._context.held.revoked(lease):
            self._context.held.drop(lease)
        else:
            self._release(lease, "the worker ends")

    def _mistrust(self, lease: Lease, reason: str) -> None:
        """Give a job back to the service after a fault of the device.

        Before the next job, a known-good kernel must succeed.
        """
        self._health.failed(job_of(lease), reason)
        self._fault = self._health.verdict
        self._release(lease, reason)
        self._doing = ("testing", reason)
        event = "the device is at fault; the job is given back"
        _LOG.error(event, device=self.device.model, attempt=lease.attempt_id, reason=reason)
        if self._fault is None:
            self._mending.wait()
        self._meter.take()

    def _exhausted(self, lease: Lease, reason: str) -> None:
        """Give all jobs back because the disk cannot be used, and pause. The jobs do not count as failed."""
        _LOG.error("the disk cannot be used; all jobs are given back", attempt=lease.attempt_id, reason=reason)
        self._release(lease, reason)
        self._give_back(reason)
        self._doing = ("exhausted", reason)
        self._mending.wait()
        self._meter.take()

    def _broken(self, lease: Lease, reason: str) -> None:
        """Give a job that failed on this machine back to the service.

        After `MAX_BREAKS` failures, report the job as failed instead.
        """
        job = job_of(lease)
        if len(self._breaks) >= MOST_BROKEN:
            self._breaks.clear()
        self._breaks[job] += 1
        if self._breaks[job] < MAX_BREAKS:
            _LOG.warning("a job failed, and is given back", attempt=lease.attempt_id, reason=reason)
            self._release(lease, reason)
            self._context.stopping.wait(PAUSE_S)
        else:
            _LOG.error("a job failed repeatedly, and is reported as failed", attempt=lease.attempt_id, reason=reason)
            self._context.outbox.post(self._shipping.pack(lease, failure(lease.job, reason), {}))
            self._context.held.drop(lease)

    def _give_back(self, reason: str) -> None:
        for pending in self._pipeline.empty():
            self._release(pending.lease, reason)

    def _release(self, lease: Lease, reason: str, *, unfit: bool = False) -> None:
        """Give a lease back to the service, unless the worker is stopping.

        A stopping worker gives back all leases together.

        Args:
            unfit: True if this machine cannot execute any job of the search.
        """
        self._context.held.drop(lease)
        if self._context.stopping.is_set():
            return
        try:
            self._context.client.release(lease.attempt_id, lease.token, reason=reason[:LONGEST_REASON], unfit=unfit)
        except EvoError as error:  # the lease will expire
            _LOG.warning("a lease could not be given back; it will expire", attempt=lease.attempt_id, reason=str(error))

    @contextmanager
    def _performing(self, lease: Lease) -> Iterator[None]:
        with self._lock:
            if self._unwanted(lease):
                raise GaveUp("the measurement is no longer needed")
            self._performer.begin()
            self._current = lease
        self._doing = ("working", None)
        try:
            yield
        finally:
            with self._lock:
                self._status.say(None)
                self._current = None
