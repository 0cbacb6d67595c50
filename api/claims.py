"""Handing out work: what waits first, else a new proposal. All is committed before the worker hears of it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from api.active import ActiveSearch
from db.archive import Archive
from db.leases import Leases
from db.models import AttemptRow, TrialRow
from db.session import Database
from evo.device import Device
from evo.errors import EvoError
from evo.job import Evaluate, Lease
from evo.trial import Trial


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One device of one worker, asking for work."""

    worker_id: str
    device: Device
    lease_s: float


class StrategyFailed(EvoError, RuntimeError):
    """A strategy raised instead of proposing: a bug of ours, which ends the search and not the service."""


def lease_queued(database: Database, active: ActiveSearch, slot: Slot, now: datetime) -> Lease | None:
    """A job that waits, if there is one."""
    if not active.has_queued:
        return None
    with database.write() as session:
        leases = Leases(session)
        job = leases.next_queued(active.id)
        if job is None:
            active.has_queued = False
            return None
        _start(session, active, now)
        attempt = leases.grant(
            job, worker_id=slot.worker_id, device_uuid=slot.device.uuid, now=now, lease_s=slot.lease_s
        )
    return _lease(active, attempt, slot)


def lease_proposal(database: Database, active: ActiveSearch, slot: Slot, now: datetime) -> Lease | None:
    """A new trial, if the strategy has one; it is asked outside the transaction, since thinking may take a while."""
    prune_above_us = active.search.prune_above_us()
    trial = _ask(active)
    if trial is None:
        return None
    payload = Evaluate(number=trial.number, config=trial.config, prune_above_us=prune_above_us)
    with database.write() as session:
        leases = Leases(session)
        _start(session, active, now)
        row = TrialRow(
            search_id=active.id,
            number=trial.number,
            config_key=active.search.space.key(trial.config),
            proposal=trial.proposal,
            told_before=active.search.history.seen[trial.number],
            asked_at=now,
        )
        session.add(row)
        job = leases.queue(active.id, payload, now=now, trial=row)
        attempt = leases.grant(
            job, worker_id=slot.worker_id, device_uuid=slot.device.uuid, now=now, lease_s=slot.lease_s
        )
    return _lease(active, attempt, slot)


def lease_again(database: Database, active: ActiveSearch, slot: Slot, attempt_id: int, now: datetime) -> Lease | None:
    """A lease that was granted before and still stands, renewed; None when it ended."""
    with database.write() as session:
        attempt = Leases(session).live_or_none(attempt_id)
        if attempt is None:
            return None
        attempt.expires_at = now + timedelta(seconds=slot.lease_s)
    return _lease(active, attempt, slot)


def _start(session: Session, active: ActiveSearch, now: datetime) -> None:
    """The first lease is handed out: from now on the search takes time."""
    if not active.started:
        active.start(Archive(session).search(active.id), now)


def _ask(active: ActiveSearch) -> Trial | None:
    try:
        return active.search.ask()
    except Exception as error:
        raise StrategyFailed(f"the strategy failed: {type(error).__name__}: {error}") from error


def _lease(active: ActiveSearch, attempt: AttemptRow, slot: Slot) -> Lease:
    return Lease(
        attempt_id=attempt.id, token=attempt.token, lease_s=slot.lease_s, terms=active.terms, job=attempt.job.payload
    )
