"""Leases jobs of one search to a slot: first queued jobs, then new trials.

All leases are stored before the worker gets them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from api.scheduler.active import ActiveSearch, Clock
from api.scheduler.leasing.transaction import SearchTransaction
from db.models import JobRow
from db.repositories.archive import Archive
from db.repositories.fleet import Fleet
from db.repositories.grants import Granted, Grants, Holder, ProposedTrial
from db.repositories.leases import Leases
from evo.device import Device
from evo.errors import EvoError
from evo.messages.job import Evaluate, Lease
from evo.trial import Trial

FIRST_RESULTS_S = 60.0
"""Maximum time in seconds for which a search with many pending trials waits for its first results. After that, the
search proposes more trials, because the workers with the pending trials may themselves be waiting for work."""


SHORT_MINUTES = 1.0
"""Searches with a time budget below this number of minutes measure baselines last, because timing baselines may take
ten seconds or more.
"""


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One device of a worker that requests work.

    Attributes:
        connected_since: workers that sent a request after this time count as connected.
    """

    worker_id: str
    device: Device
    lease_s: float
    connected_since: datetime


class StrategyFailed(EvoError, RuntimeError):
    """Raised if a strategy raises an exception while it proposes a trial. This ends the search, not the service."""


def queued(transaction: SearchTransaction, slot: Slot, now: datetime, count: int) -> list[Granted]:
    """Lease up to `count` queued jobs of a search to a slot, and return the leases."""
    if not transaction.active.has_queued or count == 0:
        return []
    later = baselines_come_last(transaction.active)
    waiting = Leases(transaction.session).next_queued(transaction.active.id, count, baselines=not later)
    jobs = [job for job in waiting if not _prefers_other_slot(transaction, slot, job, now)]
    transaction.active.has_queued = later or len(waiting) == count or len(jobs) < len(waiting)
    return Grants(transaction.session).grant(jobs, _holder(transaction, slot, now)) if jobs else []


def baselines_come_last(active: ActiveSearch) -> bool:
    """Return True if the search is running with a short time budget.

    Its baselines are then measured after its trials.
    """
    minutes = active.search.budget.minutes
    return active.state == "running" and minutes is not None and minutes < SHORT_MINUTES


def proposed(transaction: SearchTransaction, clock: Clock, count: int) -> list[ProposedTrial]:
    """Return up to `count` new trials.

    Fewer are returned if the budget is used up, if the strategy proposes no more, or while the search waits for its
    first results (`FIRST_RESULTS_S`).
    """
    active = transaction.active
    bars = active.search.bars()
    proposals: list[ProposedTrial] = []
    while len(proposals) < count and _wants_more(active, clock()):
        if (trial := _ask(active)) is None:
            break
        job = Evaluate(number=trial.number, config=trial.config, bars=bars)
        proposals.append(_proposed_trial(active, trial, job, clock()))
    return proposals


def _wants_more(active: ActiveSearch, now: datetime) -> bool:
    elapsed_s = active.elapsed_s(now)
    waits = active.search.full and elapsed_s < FIRST_RESULTS_S
    return not waits and active.search.stop_reason(elapsed_s) is None


def begun(transaction: SearchTransaction, slot: Slot, now: datetime, asked: Sequence[ProposedTrial]) -> list[Granted]:
    """Store new trials, lease their jobs to a slot, and return the leases."""
    return (
        Grants(transaction.session).begin(transaction.active.id, asked, _holder(transaction, slot, now))
        if asked
        else []
    )


def again(transaction: SearchTransaction, slot: Slot, attempt_id: int, now: datetime) -> list[Lease]:
    """Renew the lease of an attempt. Return a list with the lease, or an empty list if the lease has ended."""
    attempt = Leases(transaction.session).live_or_none(attempt_id)
    if attempt is None:
        return []
    attempt.expires_at = now + timedelta(seconds=slot.lease_s)
    return leases_on(transaction, slot, [Granted(attempt_id=attempt.id, token=attempt.token, job=attempt.job.payload)])


def leases_on(transaction: SearchTransaction, slot: Slot, granted: Sequence[Granted]) -> list[Lease]:
    """Return leases in the form that workers receive."""
    return [
        Lease(
            attempt_id=each.attempt_id,
            token=each.token,
            lease_s=slot.lease_s,
            terms=transaction.active.terms,
            job=each.job,
        )
        for each in granted
    ]


def _holder(transaction: SearchTransaction, slot: Slot, now: datetime) -> Holder:
    """Return the worker, device, start and duration of new leases.

    The first lease of a search starts the search's clock.
    """
    if not transaction.active.started:
        transaction.active.start(Archive(transaction.session).search(transaction.active.id), now)
    return Holder(worker_id=slot.worker_id, device_uuid=slot.device.uuid, now=now, lease_s=slot.lease_s)


def _prefers_other_slot(transaction: SearchTransaction, slot: Slot, job: JobRow, now: datetime) -> bool:
    """Return True if a confirmation should wait briefly for another device of the same model.

    Each device has a bias. A confirmation on another device is not affected by the bias of the device that first
    measured the trial.
    """
    if job.kind != "confirm" or job.trial_id is None or transaction.active.device_uuid is not None:
        return False
    if not timedelta(0) <= now - job.created_at < timedelta(seconds=transaction.active.search.policy.other_unit_s):
        return False  # the job has waited long enough, or the clock was set back
    if Leases(transaction.session).measured_on(job.trial_id) != slot.device.uuid:
        return False
    others = Fleet(transaction.session).other_units(slot.device, slot.connected_since)
    return any(transaction.active.fits(other) for other in others)


def _proposed_trial(active: ActiveSearch, trial: Trial, job: Evaluate, now: datetime) -> ProposedTrial:
    key = active.search.space.key(trial.config)
    return ProposedTrial(
        trial=trial, config_key=key, told_before=active.search.history.seen[trial.number], at=now, job=job
    )


def _ask(active: ActiveSearch) -> Trial | None:
    try:
        return active.search.ask()
    except Exception as error:
        raise StrategyFailed(f"the strategy failed: {type(error).__name__}: {error}") from error
