"""Counts of searches, trials, jobs, leases and workers, for monitoring."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

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
    """Count everything; only workers seen since `seen_since` are counted."""
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
