"""Requests jobs for one device in advance, and loads the families of the jobs."""

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import structlog

from evo.client import Client, Leases, ServiceError, ServiceUnreachable
from evo.errors import NotFound
from evo.messages.job import Confirm, Lease
from workers.build.families import Assignment, Copy, Families, FamilyMismatch
from workers.daemon.idle_clock import IdleClock
from workers.delivery.outbox import Outbox

POLL_S = 2.0
"""Maximum seconds that the service holds a request while it has no jobs. An idle slot may need this time to stop."""

DELIVERY_S = 0.3
"""Maximum seconds that a background request waits until earlier results were delivered. The service limits the number
of pending trials, and its proposals use all results that it has received.
"""

UNABLE_S = 30.0
"""After a search's family could not be loaded, no jobs of the search are requested for this many seconds. A user may
install the family in the meantime."""

_LOG = structlog.get_logger()


class Held:
    """The current leases of a worker, including leases that the service has revoked. Thread-safe.

    A lease is identified by its id and token, because a restored or new database may assign an id again.

    Attributes:
        drain: True if the service will grant no more jobs to this worker.
        closing: True if the worker is about to exit and requests no more jobs.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leases: dict[tuple[int, str], Lease] = {}
        self._revoked: set[tuple[int, str]] = set()
        self.drain = False
        self.closing = False

    def take(self, leases: Iterable[Lease]) -> None:
        with self._lock:
            self._leases.update({_key(lease): lease for lease in leases})

    def drop(self, lease: Lease) -> None:
        with self._lock:
            self._leases.pop(_key(lease), None)
            self._revoked.discard(_key(lease))

    def revoke(self, attempt_ids: Iterable[int]) -> set[int]:
        """Mark the leases of these attempts as revoked. Return the ids of the attempts whose leases were marked."""
        with self._lock:
            revoked = set(attempt_ids)
            revoked_leases = [lease for lease in self._leases.values() if lease.attempt_id in revoked]
            self._revoked.update(_key(lease) for lease in revoked_leases)
            return {lease.attempt_id for lease in revoked_leases}

    def revoked(self, lease: Lease) -> bool:
        with self._lock:
            return _key(lease) in self._revoked

    @property
    def leases(self) -> list[Lease]:
        with self._lock:
            return list(self._leases.values())


def _key(lease: Lease) -> tuple[int, str]:
    return lease.attempt_id, lease.token


@dataclass(frozen=True, kw_only=True)
class WorkerContext:
    """State that the slots of a worker share.

    Attributes:
        register: function that registers the worker again if the service has lost its registration.
        incarnation: unique id of this process.
    """

    client: Client
    worker_id: str
    register: Callable[[], None]
    families: Families
    outbox: Outbox
    held: Held
    stopping: threading.Event
    incarnation: str = field(default_factory=lambda: uuid.uuid4().hex)


class Claims:
    """Requests jobs for one device, in the background while the device is busy. Only the slot's thread may use it.

    Args:
        meter: idle clock of the slot. Time in which the service has no jobs does not count as idle.
        release: function that gives a lease back to the service without counting a failure of the job.
        unfit: function that gives a lease back to the service because this machine cannot execute any job of the
            search.
    """

    def __init__(
        self,
        device_uuid: str,
        context: WorkerContext,
        meter: IdleClock,
        *,
        release: Callable[[Lease, str], None],
        unfit: Callable[[Lease, str], None],
    ) -> None:
        self._device_uuid = device_uuid
        self._context = context
        self._meter = meter
        self._release = release
        self._unfit = unfit
        self._unable: dict[int, float] = {}
        self._assignments: dict[str, Assignment] = {}
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="claim")
        self._asked: Future[Leases] | None = None

    def ask(self, count: int, *, wait_s: float = POLL_S) -> list[tuple[Lease, Assignment]]:
        """Return up to `count` jobs. Wait up to `wait_s` seconds for the first job."""
        before_s = self._meter.still_s
        reply = self._request(count, wait_s)
        asked_s = self._meter.still_s - before_s
        self._meter.excuse(min(asked_s, reply.waited_s) if reply.leases else asked_s)
        return self._assigned(reply.leases)

    def ask_ahead(self, count: int) -> None:
        """Request jobs in the background, unless such a request is pending. `collect` returns the jobs."""
        if self._asked is None:
            self._asked = self._pool.submit(self._request_later, count)

    def collect(self, *, wait: bool) -> list[tuple[Lease, Assignment]]:
        """Return the jobs that `ask_ahead` requested, or an empty list if they have not arrived yet.

        If `wait` is True, wait until they arrive.
        """
        if self._asked is None or not (wait or self._asked.done()):
            return []
        asked, self._asked = self._asked, None
        return self._assigned(asked.result().leases)

    @property
    def arrived(self) -> bool:
        """True if `collect` would return jobs at once."""
        asked = self._asked
        return asked is not None and asked.done() and not asked.exception() and bool(asked.result().leases)

    def close(self) -> None:
        """Request no more jobs. Leases that are granted during this call are given back when the worker deregisters."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _request_later(self, count: int) -> Leases:
        self._context.outbox.wait(DELIVERY_S)
        return self._request(count, 0.0)

    def _request(self, count: int, wait_s: float) -> Leases:
        context = self._context
        known = [lease.attempt_id for lease in context.held.leases]
        try:
            reply: Leases = context.client.lease(
                context.worker_id,
                self._device_uuid,
                count=count,
                wait_s=wait_s,
                holding=[*known, *context.outbox.waiting],
                incarnation=context.incarnation,
                unable=[search_id for search_id, until_s in self._unable.items() if time.monotonic() < until_s],
            )
        except NotFound:
            if not context.stopping.is_set():  # a stopping worker has already returned its leases
                context.register()
            return Leases()
        context.held.drain = reply.drain
        context.held.take(reply.leases)
        return reply

    def _assigned(self, leases: Sequence[Lease]) -> list[tuple[Lease, Assignment]]:
        assigned = []
        for lease in leases:
            try:
                copy = self._context.families.get(lease.terms.family)
                incumbent = self._incumbent(lease)
            except FamilyMismatch as error:
                self._leave_out(lease.terms.search_id, str(error))
                self._unfit(lease, str(error))
            except (ServiceUnreachable, ServiceError) as error:
                self._leave_out(lease.terms.search_id, str(error))
                self._release(lease, str(error))
            else:
                work = self._assignment(lease, copy)
                assigned.append((lease, work if incumbent is None else replace(work, incumbent=incumbent)))
        return assigned

    def _incumbent(self, lease: Lease) -> Copy | None:
        """Return the family of a confirmation's incumbent if the challenger is a different variant, else None."""
        family = lease.job.incumbent_family if isinstance(lease.job, Confirm) else None
        return None if family is None else self._context.families.get(family)

    def _leave_out(self, search_id: int, reason: str) -> None:
        """Request no jobs of a search for `UNABLE_S` seconds."""
        _LOG.warning("this machine cannot execute the jobs of a search", search=search_id, reason=reason)
        now_s = time.monotonic()
        self._unable = {each: until_s for each, until_s in self._unable.items() if until_s > now_s}
        self._unable[search_id] = now_s + UNABLE_S

    def _assignment(self, lease: Lease, copy: Copy) -> Assignment:
        """Return the search settings and the family of a lease. Consecutive leases of a search share one object."""
        key = lease.terms.key
        if key not in self._assignments:
            self._assignments = {key: Assignment(terms=lease.terms, copy=copy)}
        return self._assignments[key]
