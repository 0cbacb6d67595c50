"""Pipeline of a slot: builds jobs in parallel, and keeps built jobs until the device is free."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import cached_property, partial

from evo.device import DeviceKind, kind_of
from evo.device.cores import core_numbers
from evo.messages.job import Baseline, Evaluate, Lease
from evo.trial.results import Report
from workers.build.families import Assignment
from workers.daemon.idle_clock import IdleClock
from workers.jobs.evaluation import Performer, Preparation
from workers.system import machine

FEW_CORES = 4
"""Number of cores below which a compiler disturbs measurements on the CPU."""

PORTIONS = 8
"""Jobs are requested when at least 1 / `PORTIONS` of the places in the pipeline are free. With a larger fraction,
requests would be larger, and the first job of a request would be delayed until the service has proposed all its jobs.
"""

MOST_JOBS = 64
"""Maximum number of jobs of a slot. It equals the maximum of one request."""

_LOOK_S = 0.1
"""Seconds between two checks whether waiting for a build was interrupted."""

LEAST_JOBS = 4
"""Number of jobs to which the pipeline shrinks at most."""

ENOUGH = 6
"""Number of built jobs above which the pipeline shrinks, because it contains more jobs than the device needs."""

DEEPER, SHALLOWER = 2, 1
"""The pipeline grows by `DEEPER` jobs after the device waited for a job, and shrinks by `SHALLOWER` jobs while too many
built jobs wait. In a simulation with 15 compilers that take 0.5 s and trials that take 0.14 s, the pipeline contains 8
jobs, and the device is idle for 1 % of the time."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Result of a build, with the times of its start and end on the monotonic clock in seconds."""

    built: Preparation
    begun_s: float
    ended_s: float


@dataclass(frozen=True, kw_only=True)
class Pending:
    """A lease whose job is built or waits for the device.

    Attributes:
        claimed_s: time of the claim on the monotonic clock in seconds.
        share_s: idle seconds of the slot before the claim, divided by the number of claimed jobs.
        start: function that starts the build.
    """

    lease: Lease
    work: Assignment
    claimed_s: float
    share_s: float
    start: Callable[[], Future[Prepared]]

    @cached_property
    def building(self) -> Future[Prepared]:
        """Future with the result of the build. The first access starts the build."""
        return self.start()


class Pipeline:
    """Builds jobs in advance, unless builds would disturb measurements.

    On a CPU with few cores, jobs are processed in batches: all jobs of a batch are built, and then executed while no
    compiler runs. The slot requests the next batch while it executes the last job. The baselines of a new search are an
    exception. Their build compares many configs to find tunables without effect, so it starts after the first candidate
    has been executed. On other devices, jobs are built during measurements. If the device is a CPU, compilers do not
    use the core that measures.

    On a recorded space, the pipeline contains one job at a time, because the order of trials must not depend on timing.
    On other devices, the pipeline contains only enough jobs to keep the device busy, because configs that are proposed
    later are based on more results. The first candidate of a search is executed before the search's baselines, so that
    users see a time early.

    Args:
        meter: idle clock of the slot, which counts builds as working time.

    Attributes:
        in_order: True if each job is reported before the next job is requested.
    """

    def __init__(self, kind: DeviceKind, performer: Performer, meter: IdleClock) -> None:
        cores = len(core_numbers())
        self._performer = performer
        self._meter = meter
        declared = kind_of(kind)
        self.in_order = declared.runs == "recordings"
        self._batches = declared.on_host and cores < FEW_CORES
        self._limit = 1 if self.in_order else min(2 * cores, MOST_JOBS)
        self._most = self._limit if self._batches else min(cores, self._limit)
        self._queue: deque[Pending] = deque()
        self._begun: set[str] = set()
        self._pool = ThreadPoolExecutor(
            max_workers=cores if self._batches else max(1, cores - 1),
            thread_name_prefix="build",
            initializer=machine.leave_last_core if declared.on_host and not self._batches else None,
        )

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def room(self) -> int:
        """Number of jobs to request now."""
        if self._batches and self._queue:
            return 0
        room = self._most - len(self._queue)
        return room if PORTIONS * room >= self._most else 0

    def add(self, leases: Sequence[tuple[Lease, Assignment]]) -> None:
        """Add the jobs of one claim, and start their builds."""
        claimed_s, still_s = time.monotonic(), self._meter.take() if leases else 0.0
        for lease, work in leases:
            start = partial(self._pool.submit, self._build, lease, work)
            self._queue.append(
                Pending(lease=lease, work=work, claimed_s=claimed_s, share_s=still_s / len(leases), start=start)
            )
        self._started(self._eligible() if self._batches else self._queue)

    def next(self, interrupted: Callable[[], bool] = lambda: False) -> Pending | None:
        """Wait until a job is built, remove the job from the pipeline, and return it.

        If jobs are processed in batches, wait until all jobs that may be executed next are built. The pipeline must not
        be empty. Return None soon after `interrupted` returns True.
        """
        eligible = self._eligible()
        futures = self._started(eligible)
        built = sum(future.done() for future in futures)
        enough = len(futures) if self._batches else 1
        until = ALL_COMPLETED if self._batches else FIRST_COMPLETED
        while len(wait(futures, timeout=_LOOK_S, return_when=until).done) < enough:
            if interrupted():
                return None
        self._adjust(built)
        ready = next(pending for pending in eligible if pending.building.done())
        self._queue.remove(ready)
        if isinstance(ready.lease.job, Evaluate):
            self._begun.add(ready.lease.terms.key)
        return ready

    def _started(self, jobs: Iterable[Pending]) -> list[Future[Prepared]]:
        """Start the builds of these jobs, unless they have already started, and return their results."""
        return [pending.building for pending in jobs]

    def _eligible(self) -> list[Pending]:
        """Return the jobs that may be executed next.

        Baselines take long, so they wait until the first candidate of their search was executed.
        """
        first = {
            pending.lease.terms.key for pending in self._queue if isinstance(pending.lease.job, Evaluate)
        } - self._begun
        return [
            pending
            for pending in self._queue
            if not isinstance(pending.lease.job, Baseline) or pending.lease.terms.key not in first
        ]

    def _adjust(self, built: int) -> None:
        if self._batches or self.in_order:
            return
        if built == 0:
            self._most = min(self._limit, self._most + DEEPER)
        elif built > ENOUGH:
            self._most = max(LEAST_JOBS, self._most - SHALLOWER)

    def empty(self) -> list[Pending]:
        """Remove and return all remaining jobs."""
        left = list(self._queue)
        self._queue.clear()
        return left

    def close(self) -> None:
        """Start no more builds. Do not wait for running builds."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _build(self, lease: Lease, work: Assignment) -> Prepared:
        with self._meter.working():
            begun_s = time.monotonic()
            built = self._performer.prepare(work, lease.job)
            return Prepared(built=built, begun_s=begun_s, ended_s=time.monotonic())


@dataclass(frozen=True, kw_only=True)
class Performed:
    """The report of an executed job, and durations that the report does not contain.

    Attributes:
        lock_s: seconds of waiting for another process that had locked the device.
        proof_s: seconds spent on running a known-good kernel after the candidate crashed or exceeded a time limit.
    """

    report: Report
    lock_s: float = 0.0
    proof_s: float = 0.0

    def accounted(
        self, pending: Pending, prepared: Prepared, *, begun_s: float, ended_s: float, still_s: float
    ) -> Report:
        """Return the report with the duration of every stage.

        Args:
            begun_s: time on the monotonic clock in seconds at which the execution of the job began.
            ended_s: time at which the execution ended.
            still_s: idle seconds of the slot since the previous job.
        """
        stages = self.report.stages
        built_s, performed_s = prepared.ended_s - prepared.begun_s, ended_s - begun_s
        worked_s = stages.compile_s + stages.verify_s + stages.measure_s + self.lock_s + self.proof_s
        stages = replace(
            stages,
            wait_s=prepared.begun_s - pending.claimed_s + begun_s - prepared.ended_s + self.lock_s,
            total_s=ended_s - pending.claimed_s,
            overhead_s=pending.share_s + still_s + max(0.0, built_s + performed_s - worked_s),
        )
        return replace(self.report, stages=stages)
