"""Repository of jobs and leases (attempts): claims, renewals, expiry and reports.

Every change of an attempt checks the attempt's state, so that a lease ends exactly once.
"""

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, bindparam, case, func, or_, select, update
from sqlalchemy.orm import Session, joinedload

from db.models import AttemptRow, AttemptState, DeviceRow, JobRow, JobState, SearchRow, TrialRow, table
from evo.errors import Conflict, MissingItem
from evo.messages.job import Job
from evo.promotion.challenge import Challenge, comparable_us
from evo.text.limits import LARGEST_ID
from evo.trial.results import EvaluateReport, Report
from evo.trial.timing import Timing

_ORDER = case({"baseline": 0, "confirm": 1}, value=JobRow.kind, else_=2)
_OPEN: tuple[JobState, ...] = ("queued", "leased")

_JUST = timedelta(seconds=10)
"""Time for which the end of a confirmation's wait counts as recent. It is longer than the interval between periodic
tasks, so that one of them finds every such confirmation.
"""

# Built once, because every claim or report runs them.
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
    """Raised if a lease has ended, or if the token in a request is not the token of the lease.

    In both cases, the worker's result is not needed.
    """


@dataclass(frozen=True, kw_only=True)
class Known:
    """The fields of an attempt that are needed to accept its report."""

    token: str
    state: AttemptState
    search_id: int


def check_token(attempt_id: int, own: str, token: str) -> None:
    """Check the fencing token of a lease.

    Raises:
        StaleLease: the token differs from the token of the attempt.
    """
    if not secrets.compare_digest(own.encode(), token.encode()):
        raise StaleLease(f"attempt {attempt_id} was leased with a different token; discard its result")


def check_live(attempt_id: int, state: AttemptState) -> None:
    """Raise an error if a lease has ended.

    Raises:
        StaleLease: the lease has ended.
    """
    if state != "live":
        raise StaleLease(f"attempt {attempt_id} is {state}: its result is no longer needed; stop executing it")


class Leases:
    """Reads and changes jobs and leases within one session. The caller commits the session."""

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
        """Add a job to the queue of a search, and return the job.

        `db.models.work.JobRow` describes `trial`, `incumbent_id` and `seen`, which are None for some kinds of jobs.
        """
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

    def next_queued(self, search_id: int, limit: int = 1, *, baselines: bool = True) -> Sequence[JobRow]:
        """Return the next jobs to lease. Jobs that another transaction is leasing are skipped.

        Baselines come first, then confirmations, then all other jobs. Within a kind, the oldest job comes first.

        Args:
            baselines: True to include baselines.
        """
        query = select(JobRow).where(JobRow.search_id == search_id, JobRow.state == "queued")
        if not baselines:
            query = query.where(JobRow.kind != "baseline")
        ordered = query.order_by(_ORDER, JobRow.id).limit(limit)
        return self.session.scalars(ordered.with_for_update(skip_locked=True, of=JobRow)).all()

    def measured_on(self, trial_id: int) -> str | None:
        """Return the UUID of the device that last reported an evaluation of a trial, or None if none was reported."""
        query = select(AttemptRow.device_uuid).join(AttemptRow.job)
        done = query.where(JobRow.trial_id == trial_id, JobRow.kind == "evaluate", AttemptRow.state == "done")
        return self.session.scalars(done.order_by(AttemptRow.id.desc()).limit(1)).first()

    def patient_confirmations(self, now: datetime) -> bool:
        """Return True if a queued confirmation has just stopped waiting for another device of the same model.

        Any device of the model may run the confirmation after this wait (`Policy.other_unit_s`).
        """
        query = select(JobRow.created_at, SearchRow.policy).join(SearchRow, SearchRow.id == JobRow.search_id)
        waiting = self.session.execute(query.where(JobRow.kind == "confirm", JobRow.state == "queued"))
        return any(
            timedelta(0) <= now - created_at - timedelta(seconds=policy.other_unit_s) < _JUST
            for created_at, policy in waiting
        )

    def open_jobs(self, search_id: int) -> dict[str, int]:
        """Count the queued and leased jobs of a search by kind."""
        query = select(JobRow.kind, func.count()).where(JobRow.search_id == search_id, JobRow.state.in_(_OPEN))
        return {kind: count for kind, count in self.session.execute(query.group_by(JobRow.kind))}  # noqa: C416

    def at_work(self, search_id: int) -> bool:
        """Return True if a job of the search is leased."""
        query = select(JobRow.id).where(JobRow.search_id == search_id, JobRow.state == "leased").limit(1)
        return self.session.scalars(query).first() is not None

    def any_since(self, search_id: int, since: datetime) -> bool:
        """Return True if a job of the search is leased, or was reported since `since`."""
        working = or_(AttemptRow.state == "live", (AttemptRow.state == "done") & (AttemptRow.ended_at >= since))
        found = select(AttemptRow.id).join(JobRow).where(JobRow.search_id == search_id, working).limit(1)
        return self.session.execute(found).first() is not None

    def confirmations(self, search_id: int) -> Sequence[JobRow]:
        """Return all confirmation jobs of a search with their trials, oldest first."""
        query = select(JobRow).where(JobRow.search_id == search_id, JobRow.kind == "confirm")
        return self.session.scalars(query.options(joinedload(JobRow.trial)).order_by(JobRow.id)).all()

    def report_of(self, job_id: int) -> Report | None:
        """Return the report of a finished job, or None if the job has none."""
        done = select(AttemptRow.result).where(AttemptRow.job_id == job_id, AttemptRow.state == "done")
        return self.session.scalars(done.order_by(AttemptRow.id.desc()).limit(1)).first()

    def open_confirmation(self, search_id: int) -> tuple[JobRow, AttemptRow | None] | None:
        """Return an open confirmation or ablation of a search, with its lease if it is leased.

        Return None if none is open. A leased job is preferred to a queued job.
        """
        query = select(JobRow).where(JobRow.search_id == search_id, JobRow.state.in_(_OPEN))
        query = query.where(JobRow.kind.in_(("confirm", "ablate"))).options(joinedload(JobRow.trial))
        job = self.session.scalars(query.order_by(JobRow.state, JobRow.id).limit(1)).first()  # leased jobs come first
        if job is None:
            return None
        return job, next(iter(self._live(AttemptRow.job_id == job.id)), None)

    def searches_with_long_jobs(self, worker_id: str, since: datetime) -> set[int]:
        """Return the ids of the searches with a long job on this worker.

        A job is long if it was leased at or before `since`, and its device has delivered no result after `since`.
        """
        query = select(JobRow.search_id, AttemptRow.device_uuid).join(AttemptRow, AttemptRow.job_id == JobRow.id)
        query = query.where(AttemptRow.worker_id == worker_id, AttemptRow.state == "live")
        leased = self.session.execute(query.where(AttemptRow.granted_at <= since).distinct()).all()
        ended_at = {device_uuid: self.last_ended_at(worker_id, device_uuid) for _, device_uuid in leased}
        return {search_id for search_id, device_uuid in leased if (ended_at[device_uuid] or since) <= since}

    def waits_for_device(self, search_id: int) -> bool:
        """Return True if devices have jobs of a search, and other processes hold all of these devices."""
        query = select(DeviceRow.activity).join(AttemptRow, AttemptRow.id == DeviceRow.attempt_id)
        query = query.join(JobRow, JobRow.id == AttemptRow.job_id)
        mine = query.where(JobRow.search_id == search_id, AttemptRow.state == "live")
        activities = self.session.scalars(mine.where(AttemptRow.worker_id == DeviceRow.worker_id)).all()
        return bool(activities) and set(activities) == {"waiting"}

    def searches_of(self, attempt_ids: Collection[int]) -> set[int]:
        """Return the ids of the searches to which attempts belong."""
        query = select(JobRow.search_id).join(AttemptRow, AttemptRow.job_id == JobRow.id)
        return set(self.session.scalars(query.where(AttemptRow.id.in_(_possible(attempt_ids))).distinct()))

    def working(self, search_id: int) -> tuple[JobRow, AttemptRow, DeviceRow | None] | None:
        """Return a leased trial or baseline job of a search, with its lease and its device.

        Return None if none is leased. A job that a device is executing is preferred, then the job with the oldest
        lease.
        """
        device = and_(DeviceRow.worker_id == AttemptRow.worker_id, DeviceRow.uuid == AttemptRow.device_uuid)
        query = select(JobRow, AttemptRow, DeviceRow).join(AttemptRow, AttemptRow.job_id == JobRow.id)
        query = query.outerjoin(DeviceRow, device).options(joinedload(JobRow.trial))
        query = query.where(JobRow.search_id == search_id, JobRow.state == "leased", AttemptRow.state == "live")
        query = query.where(JobRow.kind.in_(("baseline", "evaluate")))
        busy = case((DeviceRow.attempt_id == AttemptRow.id, 0), else_=1)
        found = self.session.execute(query.order_by(busy, AttemptRow.id).limit(1)).first()
        return None if found is None else (found[0], found[1], found[2])

    def last_ended_at(self, worker_id: str, device_uuid: str) -> datetime | None:
        """Return the time at which a device last delivered a result, or None if it has delivered no result."""
        query = select(AttemptRow.ended_at).where(AttemptRow.worker_id == worker_id, AttemptRow.state == "done")
        mine = query.where(AttemptRow.device_uuid == device_uuid)
        return self.session.scalars(mine.order_by(AttemptRow.id.desc()).limit(1)).first()

    def challenges(self, search_id: int, baselines: Mapping[str, Timing]) -> list[Challenge]:
        """Return one challenge per confirmation of a search, oldest first.

        Args:
            baselines: timings of the baselines at the start of the search.
        """
        query = select(TrialRow.number, JobRow.seen, JobRow.verdict).join(JobRow.trial)
        mine = query.where(JobRow.search_id == search_id, JobRow.kind == "confirm").order_by(JobRow.id)
        return [
            Challenge(
                number=number,
                seen=seen,
                time_us=comparable_us(verdict, baselines),
                refuted=verdict is not None and verdict.refuted is not None,
            )
            for number, seen, verdict in self.session.execute(mine)
            if seen is not None
        ]

    def challengers(self, search_id: int) -> int:
        """Count the confirmations of a search."""
        query = select(func.count()).select_from(JobRow).where(JobRow.search_id == search_id, JobRow.kind == "confirm")
        return self.session.scalar(query.where(JobRow.seen.is_not(None), JobRow.trial_id.is_not(None))) or 0

    def confirming_s(self, search_id: int) -> list[float]:
        """Return the seconds from lease to report of each finished confirmation of a search."""
        query = select(AttemptRow.granted_at, AttemptRow.ended_at).join(AttemptRow.job)
        mine = query.where(JobRow.search_id == search_id, JobRow.kind == "confirm", AttemptRow.state == "done")
        return [
            max(0.0, (ended - granted).total_seconds())
            for granted, ended in self.session.execute(mine)
            if ended is not None
        ]

    def confirming_s_of_rivals(self, search: SearchRow, most: int = 10) -> list[float]:
        """Return the durations in seconds of confirmations of other searches with the same problem and device model.

        Only the latest `most` searches with the same family version and problem are considered.
        """
        query = select(SearchRow.id, SearchRow.device).where(
            SearchRow.family_digest == search.family_digest, SearchRow.problem_key == search.problem_key
        )
        found = self.session.execute(query.order_by(SearchRow.id.desc()).limit(most)).all()
        rivals = [each for each, device in found if device.model == search.device.model and each != search.id]
        return [spent_s for each in rivals for spent_s in self.confirming_s(each)]

    def place_among_confirmations(self, job: JobRow) -> int:
        """Return the position, from 1, of a confirmation among all with the same search and the same `JobRow.seen`."""
        mine = (JobRow.search_id == job.search_id, JobRow.kind == "confirm", JobRow.seen == job.seen)
        query = select(func.count()).select_from(JobRow).where(*mine, JobRow.id <= job.id)
        return self.session.scalar(query) or 1

    def known(self, attempt_ids: Collection[int]) -> dict[int, "Known"]:
        """Return the data that is needed to accept reports, by attempt id. Unknown ids are left out."""
        rows = self.session.execute(_KNOWN, {"attempts": _possible(attempt_ids)})
        return {row.id: Known(token=row.token, state=row.state, search_id=row.search_id) for row in rows}

    def attempts(self, attempt_ids: Collection[int]) -> dict[int, AttemptRow]:
        """Return the given attempts with their jobs and trials, by attempt id."""
        return {row.id: row for row in self.session.scalars(_TOGETHER, {"attempts": list(attempt_ids)})}

    def attempt(self, attempt_id: int, token: str) -> AttemptRow:
        """Return an attempt with its job and trial.

        Raises:
            NotFound: the attempt does not exist.
            StaleLease: the token differs from the token of the attempt.
        """
        options = joinedload(AttemptRow.job).joinedload(JobRow.trial)
        row = self.session.get(AttemptRow, attempt_id, options=[options])
        if row is None:
            raise MissingItem("attempt", attempt_id)
        check_token(attempt_id, row.token, token)
        return row

    def live_or_none(self, attempt_id: int) -> AttemptRow | None:
        """Return an attempt with its job if the attempt is live, else None.

        No token is checked, so only the service itself may call this method.
        """
        return next(iter(self._live(AttemptRow.id == attempt_id)), None)

    def end(self, attempt: AttemptRow, state: AttemptState, *, now: datetime, result: Report | None = None) -> None:
        """End a live attempt, with its report in `result` if there is one. The caller must update the attempt's job."""
        attempt.state, attempt.ended_at, attempt.result = state, now, result

    def renew(self, worker_id: str, attempt_ids: Collection[int], *, now: datetime, lease_s: float) -> set[int]:
        """Extend live leases of a worker to `now + lease_s`. Return the ids of the given leases that are still live."""
        named = AttemptRow.id.in_(_possible(attempt_ids))
        mine = (AttemptRow.worker_id == worker_id, AttemptRow.state == "live", named)
        free = select(AttemptRow.id).where(*mine).order_by(AttemptRow.id)
        free = free.with_for_update(
            skip_locked=True, key_share=True
        )  # a locked lease is being reported, and needs no renewal
        renewed = update(AttemptRow).where(AttemptRow.id.in_(free)).values(expires_at=now + timedelta(seconds=lease_s))
        self.session.execute(renewed.execution_options(synchronize_session=False))
        return set(self.session.scalars(select(AttemptRow.id).where(*mine)))

    def restart(self, until: datetime) -> None:
        """Set the expiry of every live lease to `until`, even if `until` is earlier than the present expiry."""
        live = update(AttemptRow).where(AttemptRow.state == "live")
        self.session.execute(live.values(expires_at=until).execution_options(synchronize_session=False))

    def any_after(self, moment: datetime) -> bool:
        """Return True if a live lease expires after `moment`."""
        late = select(AttemptRow.id).where(AttemptRow.state == "live", AttemptRow.expires_at > moment).limit(1)
        return self.session.scalar(late) is not None

    def put_off(self, by: timedelta, *, latest: datetime) -> None:
        """Extend live leases by `by`, at most to `latest`. Leases that expire later than `latest` are shortened."""
        ends = self.session.execute(select(_ATTEMPTS.c.id, _ATTEMPTS.c.expires_at).where(_ATTEMPTS.c.state == "live"))
        rows = [{"attempt": id, "until": min(end + by, latest)} for id, end in ends]
        if rows:
            self.session.execute(_PUT_OFF, rows)

    def expired(self, now: datetime) -> Sequence[AttemptRow]:
        """Return the live attempts whose lease has expired, with their jobs."""
        return self._live(AttemptRow.expires_at < now)

    def held_by(self, worker_id: str) -> Sequence[AttemptRow]:
        """Return the live attempts of a worker, with their jobs."""
        return self._live(AttemptRow.worker_id == worker_id)

    def unreported(self, worker_id: str, device_uuid: str, holding: Collection[int]) -> list[tuple[int, int]]:
        """Return (attempt id, search id) of each live lease of a device that the worker does not list in `holding`."""
        mine = self.session.execute(_HELD, {"worker": worker_id, "unit": device_uuid})
        return [(attempt_id, search_id) for attempt_id, search_id in mine if attempt_id not in holding]

    def attempts_of_trial(self, trial_id: int) -> Sequence[AttemptRow]:
        """Return all attempts of a trial's jobs, including confirmations, with their jobs, oldest first."""
        query = select(AttemptRow).join(AttemptRow.job).where(JobRow.trial_id == trial_id)
        return self.session.scalars(query.options(joinedload(AttemptRow.job)).order_by(AttemptRow.id)).all()

    def evaluations(self, trial_ids: Collection[int]) -> dict[int, EvaluateReport]:
        """Return the latest evaluation report of each trial, by trial id. Trials without a report are left out."""
        query = select(JobRow.trial_id, AttemptRow.result).join(AttemptRow.job)
        # There is no condition on the state of attempts, because the database would then use a slower index.
        query = query.where(JobRow.trial_id.in_(trial_ids), JobRow.kind == "evaluate")
        rows = self.session.execute(query.order_by(AttemptRow.id))
        return {trial_id: result for trial_id, result in rows if trial_id and isinstance(result, EvaluateReport)}

    def cancel_all(self, search_id: int, now: datetime) -> None:
        """Cancel all open jobs of a search and their leases."""
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
    """Return the ids that fit into an integer column. PostgreSQL raises an error for larger numbers."""
    return [each for each in ids if 0 < each <= LARGEST_ID]
