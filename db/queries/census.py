"""Counts searches, trials, jobs, leases and the workload of workers, for monitoring and pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import Session, joinedload

from db.models import ArtefactRow, AttemptRow, DeliveryRow, JobRow, SearchRow, TrialRow, WorkerRow


@dataclass(frozen=True, kw_only=True)
class Census:
    """Counts by group: `searches` by state, `trials` by outcome or ``pending``, `queued` jobs by kind."""

    searches: dict[str, int]
    trials: dict[str, int]
    queued: dict[str, int]
    live_leases: int
    workers: int
    artefact_bytes: int
    pending_messages: int


def census(session: Session, seen_since: datetime) -> Census:
    """Return the current counts. Only workers that were seen since `seen_since` are counted."""
    outcome = func.coalesce(TrialRow.outcome_kind, "pending")
    return Census(
        searches=_counts(session, select(SearchRow.state, func.count()).group_by(SearchRow.state)),
        trials=_counts(session, select(outcome, func.count()).group_by(outcome)),
        queued=_counts(
            session, select(JobRow.kind, func.count()).where(JobRow.state == "queued").group_by(JobRow.kind)
        ),
        live_leases=_one(session, select(func.count()).select_from(AttemptRow).where(AttemptRow.state == "live")),
        workers=_one(session, select(func.count()).select_from(WorkerRow).where(WorkerRow.seen_at >= seen_since)),
        artefact_bytes=_one(session, select(func.sum(ArtefactRow.size))),
        pending_messages=_one(
            session, select(func.count()).select_from(DeliveryRow).where(DeliveryRow.next_at.is_not(None))
        ),
    )


def _counts(session: Session, query: Select[Any, int]) -> dict[str, int]:
    return {str(key): count for key, count in session.execute(query)}


def _one(session: Session, query: Select[Any]) -> int:
    return int(session.scalar(query) or 0)


LOST = ("expired", "abandoned")


class Workload:
    """Reads the current and past work of workers."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def current(self) -> dict[str, Sequence[AttemptRow]]:
        """Return the live attempts of each worker with their jobs and trials, by worker id, oldest attempt first."""
        query = select(AttemptRow).where(AttemptRow.state == "live").order_by(AttemptRow.id)
        found: dict[str, list[AttemptRow]] = {}
        for row in self.session.scalars(query.options(joinedload(AttemptRow.job).joinedload(JobRow.trial))):
            found.setdefault(row.worker_id, []).append(row)
        return {worker_id: tuple(rows) for worker_id, rows in found.items()}

    def finished(self, since: datetime) -> Mapping[str, int]:
        """Return the number of evaluations that each worker has finished since `since`, by worker id."""
        done = (AttemptRow.state == "done", AttemptRow.ended_at >= since, JobRow.kind == "evaluate")
        return self._counted(since, *done)

    def lost(self, since: datetime) -> Mapping[str, int]:
        """Return the number of leases that each worker has lost since `since`, by worker id.

        A lease is lost if it expires or its worker restarts.
        """
        return self._counted(since, AttemptRow.state.in_(LOST), AttemptRow.ended_at >= since)

    def _counted(self, since: datetime, *conditions: ColumnElement[bool]) -> Mapping[str, int]:
        """Return the number of attempts that meet the conditions, by worker id.

        The conditions must select attempts that ended at or after `since`. An additional condition on `expires_at` lets
        the query use an index. Attempts end before they expire or shortly afterwards, so it excludes hardly any of the
        selected attempts.
        """
        query = select(AttemptRow.worker_id, func.count()).join(AttemptRow.job)
        query = query.where(AttemptRow.expires_at >= since, *conditions).group_by(AttemptRow.worker_id)
        return {worker_id: count for worker_id, count in self.session.execute(query)}  # noqa: C416
