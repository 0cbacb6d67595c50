"""Workload of the workers: current jobs, finished evaluations and lost leases."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session, joinedload

from db.models import AttemptRow, JobRow

LOST = ("expired", "abandoned")


class Workload:
    """Queries over one session, by worker."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def current(self) -> dict[str, Sequence[AttemptRow]]:
        """Return the live attempts of each worker, with their jobs and trials, oldest first."""
        query = select(AttemptRow).where(AttemptRow.state == "live").order_by(AttemptRow.id)
        found: dict[str, list[AttemptRow]] = {}
        for row in self.session.scalars(query.options(joinedload(AttemptRow.job).joinedload(JobRow.trial))):
            found.setdefault(row.worker_id, []).append(row)
        return {worker_id: tuple(rows) for worker_id, rows in found.items()}

    def finished(self, since: datetime) -> Mapping[str, int]:
        """Count the evaluations each worker has finished since `since`."""
        done = (AttemptRow.state == "done", AttemptRow.ended_at >= since, JobRow.kind == "evaluate")
        return self._counted(since, *done)

    def lost(self, since: datetime) -> Mapping[str, int]:
        """Count the leases each worker has lost since `since`: they expired, or it restarted without them."""
        return self._counted(since, AttemptRow.state.in_(LOST), AttemptRow.ended_at >= since)

    def _counted(self, since: datetime, *conditions: ColumnElement[bool]) -> Mapping[str, int]:
        """Count attempts by worker. The condition on `expires_at` uses an index: a lease expires after it ends."""
        query = select(AttemptRow.worker_id, func.count()).join(AttemptRow.job)
        query = query.where(AttemptRow.expires_at >= since, *conditions).group_by(AttemptRow.worker_id)
        return {worker_id: count for worker_id, count in self.session.execute(query)}  # noqa: C416
