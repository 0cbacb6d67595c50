"""What need not be kept: ended searches past their time, artefacts beyond their limit, old events and answers.

What a champion rests on, present or former, is never touched, nor is a search in the archive.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from db.answers import drop_old_answers
from db.events import Events
from db.leases import Leases
from db.models import ArtefactRow, AttemptRow, ChampionRow, FamilyRow, JobRow, SearchRow
from db.removal import remove_search
from evo.job import EvaluateReport
from evo.lifecycle import TERMINAL
from evo.view import Collected

YOUNG = timedelta(days=1)
"""A newer artefact may belong to a report that is still on its way."""


def collect_searches(session: Session, before: datetime, limit: int | None) -> Collected:
    """Delete searches that ended before then, so many at most.

    Where a champion rests on one, only the reports on its other trials go.
    """
    query = select(SearchRow.id).where(
        SearchRow.state.in_(TERMINAL), SearchRow.finished_at < before, SearchRow.archived_at.is_(None)
    )
    crowned = select(ChampionRow.search_id)
    plain = query.where(SearchRow.id.not_in(crowned)).order_by(SearchRow.id)
    gone = session.scalars(plain.limit(limit)).all()
    for search_id in gone:
        remove_search(session, search_id)
    thinned = sum(_thin(session, search_id) for search_id in session.scalars(query.where(SearchRow.id.in_(crowned))))
    return Collected(searches_deleted=len(gone), searches_thinned=thinned)


def _thin(session: Session, search_id: int) -> bool:
    needed = select(ChampionRow.trial_id).where(ChampionRow.search_id == search_id)
    jobs = session.scalars(
        select(JobRow.id).where(
            JobRow.search_id == search_id, JobRow.kind == "evaluate", JobRow.trial_id.not_in(needed)
        )
    ).all()
    if not jobs:
        return False
    session.execute(delete(AttemptRow).where(AttemptRow.job_id.in_(jobs)))
    session.execute(delete(JobRow).where(JobRow.id.in_(jobs)))
    return True


def collect_artefacts(session: Session, limit_bytes: int, now: datetime) -> tuple[Collected, list[str]]:
    """Forget artefacts, the oldest first, until the rest is within the limit; their files are the caller's to remove.

    Returns:
        what was done, and the digests whose files go once this transaction is committed.
    """
    total = session.scalar(select(func.sum(ArtefactRow.size))) or 0
    needed, doomed, freed = _needed(session), [], 0
    if total > limit_bytes:
        old = select(ArtefactRow.digest, ArtefactRow.size).where(ArtefactRow.created_at < _settled(session, now))
        for digest, size in session.execute(old.order_by(ArtefactRow.created_at, ArtefactRow.digest)):
            if total - freed <= limit_bytes:
                break
            if digest not in needed:
                doomed.append(digest)
                freed += size
    for digest in doomed:
        session.execute(delete(ArtefactRow).where(ArtefactRow.digest == digest))
    return Collected(artefacts_deleted=len(doomed), bytes_freed=freed, bytes_kept=total - freed), doomed


def collect_log(session: Session, now: datetime) -> None:
    """Drop events and answers that nobody may ask for any more."""
    drop_old_answers(session, now)
    if Events(session).overdue():
        Events(session).drop_old()


def _settled(session: Session, now: datetime) -> datetime:
    """Nothing stored before then can be what a trial leaves behind that may still become a champion."""
    unfinished = select(func.min(SearchRow.created_at)).where(SearchRow.state.not_in(TERMINAL))
    begun = session.scalar(unfinished)
    return now - YOUNG if begun is None else min(begun, now - YOUNG)


def _needed(session: Session) -> set[str]:
    """Digests that champions and families rest on."""
    champions: Sequence[ChampionRow] = session.scalars(select(ChampionRow)).all()
    reports: list[EvaluateReport] = list(Leases(session).evaluations([row.trial_id for row in champions]).values())
    needed = {digest for row in champions for digest in row.evidence.report.artefacts.values()}
    needed |= {digest for report in reports for digest in report.artefacts.values()}
    needed |= {report.binary_digest for report in reports if report.binary_digest}
    locations = session.scalars(select(FamilyRow.location).where(FamilyRow.location.is_not(None)))
    return needed | {str(location).rpartition(":")[2] for location in locations}
