"""What a slot is given of one search: what waits first, else new proposals. All is stored before the worker hears."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from api.scheduler.active import ActiveSearch, Clock
from api.scheduler.transaction import Turn
from db.models import JobRow
from db.repositories.archive import Archive
from db.repositories.fleet import Fleet
from db.repositories.grants import Asked, Granted, Grants, Holder
from db.repositories.leases import Leases
from evo.device import Device
from evo.errors import EvoError
from evo.messages.job import Evaluate, Lease
from evo.trial import Trial

FIRST_RESULTS_S = 60.0
"""How long a search may keep workers waiting for its first results: those who hold them may have to wait themselves."""


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


def queued(turn: Turn, slot: Slot, now: datetime, count: int) -> list[Granted]:
    """Leases on up to so many jobs that wait."""
    if not turn.active.has_queued or count == 0:
        return []
    waiting = Leases(turn.session).next_queued(turn.active.id, count)
    jobs = [job for job in waiting if not _better_elsewhere(turn, slot, job, now)]
    turn.active.has_queued = len(waiting) == count or len(jobs) < len(waiting)
    return Grants(turn.session).grant(jobs, _holder(turn, slot, now)) if jobs else []


def proposed(turn: Turn, clock: Clock, count: int) -> list[Asked]:
    """Up to so many new trials, as far as budget and strategy have them; a strategy may want few at once."""
    active = turn.active
    bars = active.search.bars()
    proposals: list[Asked] = []
    while len(proposals) < count and _wants_more(active, clock()):
        if (trial := _ask(active)) is None:
            break
        job = Evaluate(number=trial.number, config=trial.config, bars=bars)
        proposals.append(_asked(active, trial, job, clock()))
    return proposals


def _wants_more(active: ActiveSearch, now: datetime) -> bool:
    elapsed_s = active.elapsed_s(now)
    waits = active.search.full and elapsed_s < FIRST_RESULTS_S
    return not waits and active.search.stop_reason(elapsed_s) is None


def begun(turn: Turn, slot: Slot, now: datetime, asked: Sequence[Asked]) -> list[Granted]:
    """Leases on new trials."""
    return Grants(turn.session).begin(turn.active.id, asked, _holder(turn, slot, now)) if asked else []


def again(turn: Turn, slot: Slot, attempt_id: int, now: datetime) -> list[Lease]:
    """A lease that was granted before and still stands, renewed; none when it ended."""
    attempt = Leases(turn.session).live_or_none(attempt_id)
    if attempt is None:
        return []
    attempt.expires_at = now + timedelta(seconds=slot.lease_s)
    return leases_on(turn, slot, [Granted(attempt_id=attempt.id, token=attempt.token, job=attempt.job.payload)])


def leases_on(turn: Turn, slot: Slot, granted: Sequence[Granted]) -> list[Lease]:
    """What the worker is told of what is stored."""
    return [
        Lease(
            attempt_id=each.attempt_id,
            token=each.token,
            lease_s=slot.lease_s,
            terms=turn.active.terms,
            job=each.job,
        )
        for each in granted
    ]


def _holder(turn: Turn, slot: Slot, now: datetime) -> Holder:
    """Who is about to be given leases: with the first one the search begins to take time."""
    if not turn.active.started:
        turn.active.start(Archive(turn.session).search(turn.active.id), now)
    return Holder(worker_id=slot.worker_id, device_uuid=slot.device.uuid, now=now, lease_s=slot.lease_s)


def _better_elsewhere(turn: Turn, slot: Slot, job: JobRow, now: datetime) -> bool:
    """Whether a confirmation should wait a little for another unit: what confirms should not share a unit's whims."""
    if job.kind != "confirm" or job.trial_id is None or turn.active.device_uuid is not None:
        return False
    if not timedelta(0) <= now - job.created_at < timedelta(seconds=turn.active.search.policy.other_unit_s):
        return False  # also where the clock was set back meanwhile
    if Leases(turn.session).measured_on(job.trial_id) != slot.device.uuid:
        return False
    others = Fleet(turn.session).other_units(slot.device, slot.connected_since)
    return any(turn.active.fits(other) for other in others)


def _asked(active: ActiveSearch, trial: Trial, job: Evaluate, now: datetime) -> Asked:
    key = active.search.space.key(trial.config)
    return Asked(trial=trial, config_key=key, told_before=active.search.history.seen[trial.number], at=now, job=job)


def _ask(active: ActiveSearch) -> Trial | None:
    try:
        return active.search.ask()
    except Exception as error:
        raise StrategyFailed(f"the strategy failed: {type(error).__name__}: {error}") from error
