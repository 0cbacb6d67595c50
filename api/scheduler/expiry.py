"""Handles expired and returned leases. Their jobs are queued again, or end after too many lost leases."""

from dataclasses import replace
from datetime import datetime

import structlog

from api.scheduler.active import Clock
from api.scheduler.leasing.transaction import SearchTransaction
from api.scheduler.registry import Registry
from api.scheduler.results.store import confirmed, end_trial
from db.engine.events import Events
from db.models import AttemptState, JobRow
from db.repositories.archive import Archive
from db.repositories.leases import Leases
from evo.messages.job import Evaluate
from evo.trial.outcome import Abandoned

log = structlog.get_logger("conductor")


class Expiry:
    """Ends leases without a result. Methods may be called from any thread."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock

    def release(self, attempt_id: int, search_id: int, reason: str, *, unfit: bool = False) -> None:
        """End a lease that a worker returns, and queue its job again.

        If the worker cannot execute any job of the search (`unfit`), the search shows the reason.
        """
        with self._registry.transaction(search_id) as transaction:
            attempt = None if transaction is None else Leases(transaction.session).live_or_none(attempt_id)
            if transaction is None or attempt is None:
                return
            Leases(transaction.session).end(attempt, "released", now=self._clock())
            attempt.job.state = "queued"
            transaction.queued()
            if unfit and reason:
                search = Archive(transaction.session).search(search_id)
                search.obstacle, search.obstacle_at = reason, self._clock()
                Events(transaction.session).search_changed(search_id)
        log.info("lease released", attempt=attempt_id, search=search_id, reason=reason)

    def lose(self, attempt_id: int, search_id: int, how: AttemptState) -> None:
        """End the lease of a lost worker, and queue its job again. After too many losses, end the job instead."""
        with self._registry.transaction(search_id) as transaction:
            if transaction is None:
                return
            now = self._clock()
            attempt = Leases(transaction.session).live_or_none(attempt_id)
            if attempt is None or (how == "expired" and attempt.expires_at >= now):
                return
            Leases(transaction.session).end(attempt, how, now=now)
            job = attempt.job
            job.worker_losses += 1
            log.warning(
                "lease of a lost worker ended", attempt=attempt_id, search=search_id, how=how, losses=job.worker_losses
            )
            if job.worker_losses < transaction.active.terms.policy.max_worker_losses:
                job.state = "queued"
                transaction.queued()
            else:
                _give_up(transaction, job, now)


def _give_up(transaction: SearchTransaction, job: JobRow, now: datetime) -> None:
    """End a job whose workers were lost too often. The outcome `Abandoned` does not count against the config."""
    job.state, job.ended_at = "abandoned", now
    if job.kind == "confirm":
        confirmed(transaction)
    if isinstance(job.payload, Evaluate):
        pending = transaction.active.search.history.pending[job.payload.number]
        row = Archive(transaction.session).numbered(transaction.active.id, job.payload.number)
        end_trial(transaction, row, replace(pending, outcome=Abandoned(worker_losses=job.worker_losses)), now=now)
