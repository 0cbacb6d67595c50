"""Jobs and their attempts: who works on what until when, and what was handed in.

Every change of an attempt is guarded by its state: a lease ends once, whoever is first.
"""

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, bindparam, case, func, or_, select, update
from sqlalchemy.orm import Session, joinedload

from db.models import AttemptRow, AttemptState, JobRow, JobState, SearchRow, TrialRow, table
from evo.errors import Conflict, NotFound
from evo.messages.job import Job
from evo.promotion.challenge import comparable_us
from evo.promotion.challengers import Challenge
from evo.results import EvaluateReport, Report
from evo.text.limits import LARGEST_ID
from evo.trial.timing import Timing

_ORDER = case({"baseline": 0, "confirm": 1}, value=JobRow.kind, else_=2)
_OPEN: tuple[JobState, ...] = ("queued", "leased")

_JUST = timedelta(seconds=10)
"""Longer than the time between two sweeps."""

# Run for each claim or report, and so built once.
_ATTEMPTS, _JOBS = table(AttemptRow), table(JobRow)
_WITH_JOBS = _ATTEMPTS.join(_JOBS, _JOBS.c.id == _ATTEMPTS.c.job_id)
_KNOWN = (
    select(_ATTEMPTS.c.id, _ATTEMPTS.c.token, _ATTEMPTS.c.state, _JOBS.c.search_id)
    .select_from(_WITH_JOBS)
    .where(_ATTEMPTS.c.id.in_(bindparam("attempts", expanding=True)))
)
_HELD = (
    select(_ATTEMPTS.c.id, _JOBS.c.search_id)
    .select_from(_WITH_JOBS)
    .where(_ATTEMPTS.c.worker_id == bindparam("worker"), _ATTEMPTS.c.device_uuid == bindparam("unit"))
    .where(_ATTEMPTS.c.state == "live")
    .order_by(_ATTEMPTS.c.id)
)
_PUT_OFF = (
    update(_ATTEMPTS)
    .where(_ATTEMPTS.c.id == bindparam("attempt"), _ATTEMPTS.c.state == "live")
    .values(expires_at=bindparam("until"))
)
_TOGETHER = (
    select(AttemptRow)
    .where(AttemptRow.id.in_(bindparam("attempts", expanding=True)))
    .options(joinedload(AttemptRow.job).joinedload(JobRow.trial).defer(TrialRow.proposal))
)


class StaleLease(Conflict):
    """The lease ended before this arrived: the work was given to another, or is no longer wanted."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """An attempt, as a report on it needs it."""

    token: str
    state: AttemptState
    search_id: int


def check_token(attempt_id: int, own: str, given: str) -> None:
    """Fence a lease.

    Raises:
        StaleLease: the token is not the attempt's own.
    """
    if not secrets.compare_digest(own.encode(), given.encode()):
        raise StaleLease(f"attempt {attempt_id} was leased with another token: drop this work")


def check_live(attempt_id: int, state: AttemptState) -> None:
    """Refuse what arrives after the lease has ended.

    Raises:
        StaleLease: it has.
    """
    if state != "live":
        raise StaleLease(f"attempt {attempt_id} is {state}: its work is no longer wanted, drop it")


class Leases:
    """Queries over one session; whoever opened the session commits."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def queue(
        self,
        search_id: int,
        payload: Job,
        *,
        now: datetime,
        trial: TrialRow | None = None,
        incumbent_id: int | None = None,
        seen: int | None = None,
    ) -> JobRow:
        """Add a job that waits for a worker."""
        job = JobRow(
            search_id=search_id,
            trial=trial,
            kind=payload.kind,
            state="queued",
            payload=payload,
            incumbent_id=incumbent_id,
            seen=seen,
            created_at=now,
        )
        self.session.add(job)
        self.session.flush()
        return job

    def next_queued(self, search_id: int, limit: int = 1) -> Sequence[JobRow]:
        """Jobs to hand out next: baselines first, then confirmations, then trials, each in the order they came.

        One that another transaction is just handing out is passed over.
        """
        query = select(JobRow).where(JobRow.search_id == search_id, JobRow.state == "queued")
        ordered = query.order_by(_ORDER, JobRow.id).limit(limit)
        return self.session.scalars(ordered.with_for_update(skip_locked=True, of=JobRow)).all()

    def measured_on(self, trial_id: int) -> str | None:
        """The unit on which a trial was measured."""
        query = select(AttemptRow.device_uuid).join(AttemptRow.job)
        done = query.where(JobRow.trial_id == trial_id, JobRow.kind == "evaluate", AttemptRow.state == "done")
        return self.session.scalars(done.order_by(AttemptRow.id.desc()).limit(1)).first()

    def patient_confirmations(self, now: datetime) -> bool:
        """Return whether a queued confirmation has just waited `Policy.other_unit_s` for another device."""
        query = select(JobRow.created_at, SearchRow.policy).join(SearchRow, SearchRow.id == JobRow.search_id)
        waiting = self.session.execute(query.where(JobRow.kind == "confirm", JobRow.state == "queued"))
        return any(
            timedelta(0) <= now - created_at - timedelta(seconds=policy.other_unit_s) < _JUST
            for created_at, policy in waiting
        )

    def open_jobs(self, search_id: int) -> dict[str, int]:
        """How many jobs of each kind wait or are being worked on."""
        query = select(JobRow.kind, func.count()).where(JobRow.search_id == search_id, JobRow.state.in_(_OPEN))
        return {kind: count for kind, count in self.session.execute(query.group_by(JobRow.kind))}  # noqa: C416

    def at_work(self, search_id: int) -> bool:
        """Whether anybody works on a job."""
        query = select(JobRow.id).where(JobRow.search_id == search_id, JobRow.state == "leased").limit(1)
        return self.session.scalars(query).first() is not None

    def any_since(self, search_id: int, since: datetime) -> bool:
        """Whether a worker has work of the search now, or has reported some since then."""
        working = or_(AttemptRow.state == "live", (AttemptRow.state == "done") & (AttemptRow.ended_at >= since))
        found = select(AttemptRow.id).join(JobRow).where(JobRow.search_id == search_id, working).limit(1)
        return self.session.execute(found).first() is not None

    def confirmations(self, search_id: int) -> Sequence[JobRow]:
        """Every confirmation of a search with its challenger, oldest first."""
        query = select(JobRow).where(JobRow.search_id == search_id, JobRow.kind == "confirm")
        return self.session.scalars(query.options(joinedload(JobRow.trial)).order_by(JobRow.id)).all()

    def proving(self, search_id: int) -> tuple[JobRow, AttemptRow | None] | None:
        """The confirmation or ablation that is worked on, with its lease, or that waits; None: there is none."""
        query = select(JobRow).where(JobRow.search_id == search_id, JobRow.state.in_(_OPEN))
        query = query.where(JobRow.kind.in_(("confirm", "ablate"))).options(joinedload(JobRow.trial))
        job = self.session.scalars(query.order_by(JobRow.state, JobRow.id).limit(1)).first()  # leased before queued
        if job is None:
            return None
        return job, next(iter(self._live(AttemptRow.job_id == job.id)), None)

    def proven_by(self, worker_id: str) -> Sequence[int]:
        """Searches whose confirmation or ablation this worker is at."""
        query = select(JobRow.search_id).join(AttemptRow, AttemptRow.job_id == JobRow.id).distinct()
        mine = query.where(AttemptRow.worker_id == worker_id, AttemptRow.state == "live")
        return self.session.scalars(mine.where(JobRow.kind.in_(("confirm", "ablate")))).all()

    def challenges(self, search_id: int, baselines: Mapping[str, Timing]) -> list[Challenge]:
        """One for each confirmation, in their order.

        Args:
            baselines: as they were timed when the search began.
        """
        query = select(TrialRow.number, JobRow.seen, JobRow.verdict).join(JobRow.trial)
        mine = query.where(JobRow.search_id == search_id, JobRow.kind == "confirm").order_by(JobRow.id)
        return [
            Challenge(number=number, seen=seen, time_us=comparable_us(verdict, baselines))
            for number, seen, verdict in self.session.execute(mine)
            if seen is not None
        ]

    def challengers(self, search_id: int) -> int:
        """How many confirmations there are."""
        query = select(func.count()).select_from(JobRow).where(JobRow.search_id == search_id, JobRow.kind == "confirm")
        return self.session.scalar(query.where(JobRow.seen.is_not(None), JobRow.trial_id.is_not(None))) or 0

    def confirming_s(self, search_id: int) -> list[float]:
        """Seconds that each confirmation of a search took, from its lease to its report."""
        query = select(AttemptRow.granted_at, AttemptRow.ended_at).join(AttemptRow.job)
        mine = query.where(JobRow.search_id == search_id, JobRow.kind == "confirm", AttemptRow.state == "done")
        return [
            max(0.0, (ended - granted).total_seconds())
            for granted, ended in self.session.execute(mine)
            if ended is not None
        ]

    def known(self, attempt_ids: Collection[int]) -> dict[int, "Known"]:
        """These attempts as far as taking in their results needs it; those that do not exist are left out."""
        rows = self.session.execute(_KNOWN, {"attempts": _possible(attempt_ids)})
        return {row.id: Known(token=row.token, state=row.state, search_id=row.search_id) for row in rows}

    def together(self, attempt_ids: Collection[int]) -> dict[int, AttemptRow]:
        """These attempts by id, with their jobs and trials."""
        return {row.id: row for row in self.session.scalars(_TOGETHER, {"attempts": list(attempt_ids)})}

    def attempt(self, attempt_id: int, token: str) -> AttemptRow:
        """An attempt with its job and trial.

        Raises:
            NotFound: there is no such attempt.
            StaleLease: the token is not its own.
        """
        options = joinedload(AttemptRow.job).joinedload(JobRow.trial)
        row = self.session.get(AttemptRow, attempt_id, options=[options])
        if row is None:
            raise NotFound(f"there is no attempt {attempt_id}")
        check_token(attempt_id, row.token, token)
        return row

    def live_or_none(self, attempt_id: int) -> AttemptRow | None:
        """A live attempt with its job, without its token: for the service itself."""
        return next(iter(self._live(AttemptRow.id == attempt_id)), None)

    def end(self, attempt: AttemptRow, state: AttemptState, *, now: datetime, result: Report | None = None) -> None:
        """End a live attempt; its job is left to the caller."""
        attempt.state, attempt.ended_at, attempt.result = state, now, result

    def renew(self, worker_id: str, attempt_ids: Collection[int], *, now: datetime, lease_s: float) -> set[int]:
        """Extend a worker's live leases; returns those that still stand."""
        named = AttemptRow.id.in_(_possible(attempt_ids))
        mine = (AttemptRow.worker_id == worker_id, AttemptRow.state == "live", named)
        free = select(AttemptRow.id).where(*mine).order_by(AttemptRow.id)
        free = free.with_for_update(skip_locked=True, key_share=True)  # one being reported needs no renewal
        renewed = update(AttemptRow).where(AttemptRow.id.in_(free)).values(expires_at=now + timedelta(seconds=lease_s))
        self.session.execute(renewed.execution_options(synchronize_session=False))
        return set(self.session.scalars(select(AttemptRow.id).where(*mine)))

    def restart(self, until: datetime) -> None:
        """Let every live lease end then, also one whose end was written by a clock that was ahead."""
        live = update(AttemptRow).where(AttemptRow.state == "live")
        self.session.execute(live.values(expires_at=until).execution_options(synchronize_session=False))

    def any_after(self, moment: datetime) -> bool:
        """Whether a live lease ends after this moment."""
        late = select(AttemptRow.id).where(AttemptRow.state == "live", AttemptRow.expires_at > moment).limit(1)
        return self.session.scalar(late) is not None

    def put_off(self, by: timedelta, *, latest: datetime) -> None:
        """Let live leases end later, but none after `latest`."""
        ends = self.session.execute(select(_ATTEMPTS.c.id, _ATTEMPTS.c.expires_at).where(_ATTEMPTS.c.state == "live"))
        rows = [{"attempt": id, "until": min(end + by, latest)} for id, end in ends]
        if rows:
            self.session.execute(_PUT_OFF, rows)

    def expired(self, now: datetime) -> Sequence[AttemptRow]:
        """Live attempts past their time, with their jobs."""
        return self._live(AttemptRow.expires_at < now)

    def held_by(self, worker_id: str) -> Sequence[AttemptRow]:
        """A worker's live attempts, with their jobs."""
        return self._live(AttemptRow.worker_id == worker_id)

    def unheard(self, worker_id: str, device_uuid: str, holding: Collection[int]) -> list[tuple[int, int]]:
        """(attempt, search) of each live lease of a device that its worker does not know of."""
        mine = self.session.execute(_HELD, {"worker": worker_id, "unit": device_uuid})
        return [(attempt_id, search_id) for attempt_id, search_id in mine if attempt_id not in holding]

    def attempts_of_trial(self, trial_id: int) -> Sequence[AttemptRow]:
        """Every attempt at a trial and its confirmations, with their jobs, oldest first."""
        query = select(AttemptRow).join(AttemptRow.job).where(JobRow.trial_id == trial_id)
        return self.session.scalars(query.options(joinedload(AttemptRow.job)).order_by(AttemptRow.id)).all()

    def evaluations(self, trial_ids: Collection[int]) -> dict[int, EvaluateReport]:
        """The latest report on each trial, where there is one."""
        query = select(JobRow.trial_id, AttemptRow.result).join(AttemptRow.job)
        query = query.where(JobRow.trial_id.in_(trial_ids), JobRow.kind == "evaluate")  # attempts by state are too many
        rows = self.session.execute(query.order_by(AttemptRow.id))
        return {trial_id: result for trial_id, result in rows if trial_id and isinstance(result, EvaluateReport)}

    def cancel_all(self, search_id: int, now: datetime) -> None:
        """End every open job of a search and the leases on them."""
        jobs = select(JobRow.id).where(JobRow.search_id == search_id, JobRow.state.in_(_OPEN))
        live = update(AttemptRow).where(AttemptRow.job_id.in_(jobs), AttemptRow.state == "live")
        self.session.execute(live.values(state="cancelled", ended_at=now))
        self.session.execute(
            update(JobRow)
            .where(JobRow.search_id == search_id, JobRow.state.in_(_OPEN))
            .values(state="cancelled", ended_at=now)
        )

    def _live(self, *conditions: ColumnElement[bool]) -> Sequence[AttemptRow]:
        query = select(AttemptRow).where(AttemptRow.state == "live", *conditions)
        return self.session.scalars(query.options(joinedload(AttemptRow.job)).order_by(AttemptRow.id)).all()


def _possible(ids: Collection[int]) -> list[int]:
    """Without those that no row can have, about which not every database can be asked."""
    return [each for each in ids if 0 < each <= LARGEST_ID]
