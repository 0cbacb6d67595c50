"""What a slot is given of one search: what waits first, else new proposals. All is stored before the worker hears."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from api.active import ActiveSearch, Clock
from api.turn import Turn
from db.archive import Archive
from db.fleet import Fleet
from db.leases import Leases
from db.models import AttemptRow, JobRow, TrialRow
from evo.device import Device
from evo.errors import EvoError
from evo.job import Evaluate, Lease
from evo.trial import Trial

Proposed: TypeAlias = tuple[TrialRow, Evaluate]

OTHER_UNIT_S = 10.0
"""How long a confirmation waits for another unit than the one that measured the challenger, where there is one."""


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One device of one worker, asking for work.

    Attributes:
        connected_since: workers heard of since then count as there.
    """

    worker_id: str
    device: Device
    lease_s: float
    connected_since: datetime


class StrategyFailed(EvoError, RuntimeError):
    """A strategy raised instead of proposing: a bug of ours, which ends the search and not the service."""


def queued(turn: Turn, slot: Slot, now: datetime, count: int) -> list[AttemptRow]:
    """Leases on up to so many jobs that wait."""
    if not turn.active.has_queued or count == 0:
        return []
    waiting = Leases(turn.session).next_queued(turn.active.id, count)
    jobs = [job for job in waiting if not _better_elsewhere(turn, slot, job, now)]
    turn.active.has_queued = len(waiting) == count or len(jobs) < len(waiting)
    return _granted(turn, slot, now, jobs)


def proposed(turn: Turn, clock: Clock, count: int) -> list[Proposed]:
    """Up to so many new trials, as far as budget and strategy have them."""
    active = turn.active
    prune_above_us = active.search.prune_above_us()
    proposals: list[Proposed] = []
    while len(proposals) < count and active.search.stop_reason(active.elapsed_s(clock())) is None:
        if (trial := _ask(active)) is None:
            break
        job = Evaluate(number=trial.number, config=trial.config, prune_above_us=prune_above_us)
        proposals.append((_row(active, trial, clock()), job))
    return proposals


def begun(turn: Turn, slot: Slot, now: datetime, proposals: Sequence[Proposed]) -> list[AttemptRow]:
    """Leases on new trials."""
    rows, payloads = [row for row, _ in proposals], [job for _, job in proposals]
    turn.session.add_all(rows)
    return _granted(turn, slot, now, Leases(turn.session).queue_trials(turn.active.id, rows, payloads, now=now))


def again(turn: Turn, slot: Slot, attempt_id: int, now: datetime) -> list[Lease]:
    """A lease that was granted before and still stands, renewed; none when it ended."""
    attempt = Leases(turn.session).live_or_none(attempt_id)
    if attempt is None:
        return []
    attempt.expires_at = now + timedelta(seconds=slot.lease_s)
    return leases_on(turn, slot, [attempt])


def leases_on(turn: Turn, slot: Slot, attempts: Sequence[AttemptRow]) -> list[Lease]:
    """What the worker is told of stored attempts."""
    return [
        Lease(
            attempt_id=each.id,
            token=each.token,
            lease_s=slot.lease_s,
            terms=turn.active.terms,
            job=each.job.payload,
        )
        for each in attempts
    ]


def _granted(turn: Turn, slot: Slot, now: datetime, jobs: Sequence[JobRow]) -> list[AttemptRow]:
    if not jobs:
        return []
    if not turn.active.started:  # the first lease is handed out: from now on the search takes time
        turn.active.start(Archive(turn.session).search(turn.active.id), now)
    return Leases(turn.session).grant(
        jobs, worker_id=slot.worker_id, device_uuid=slot.device.uuid, now=now, lease_s=slot.lease_s
    )


def _better_elsewhere(turn: Turn, slot: Slot, job: JobRow, now: datetime) -> bool:
    """Whether a confirmation should wait a little for another unit: what confirms should not share a unit's whims."""
    if job.kind != "confirm" or job.trial_id is None or turn.active.device_uuid is not None:
        return False
    if now - job.created_at >= timedelta(seconds=OTHER_UNIT_S):
        return False
    if Leases(turn.session).measured_on(job.trial_id) != slot.device.uuid:
        return False
    others = Fleet(turn.session).other_units(slot.device, slot.connected_since)
    return any(turn.active.fits(other) for other in others)


def _row(active: ActiveSearch, trial: Trial, now: datetime) -> TrialRow:
    return TrialRow(
        search_id=active.id,
        number=trial.number,
        config_key=active.search.space.key(trial.config),
        proposal=trial.proposal,
        told_before=active.search.history.seen[trial.number],
        asked_at=now,
    )


def _ask(active: ActiveSearch) -> Trial | None:
    try:
        return active.search.ask()
    except Exception as error:
        raise StrategyFailed(f"the strategy failed: {type(error).__name__}: {error}") from error
