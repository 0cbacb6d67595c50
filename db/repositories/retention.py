"""What need not be kept: searches and workers past their time, artefacts beyond their limit, old events and answers.

What a champion rests on, present or former, is never touched, nor is a search in the archive.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta

import structlog
from sqlalchemy import delete, func, or_, select, tuple_
from sqlalchemy.orm import Session

from db.engine.events import Events
from db.models import (
    ArtefactRow,
    AttemptRow,
    ChampionRow,
    DeviceRow,
    FamilyRow,
    JobRow,
    SearchRow,
    SessionRow,
    TokenRow,
    WorkerRow,
)
from db.repositories.answers import drop_old_answers
from db.repositories.archive import BUNDLE
from db.repositories.leases import Leases
from db.repositories.removal import remove_search
from evo.messages.view import Collected
from evo.results import EvaluateReport
from evo.search.lifecycle import TERMINAL

log = structlog.get_logger("chores")

YOUNG = timedelta(days=1)
"""A newer artefact may belong to a report that is still on its way."""


def collect_searches(session: Session, before: datetime, limit: int | None, failed: set[int]) -> Collected:
    """Delete searches that ended before then, so many at most.

    Where a champion rests on one, only the reports on its other trials go.

    Args:
        failed: searches to leave out; those that cannot be collected are added.
    """
    query = select(SearchRow.id).where(
        SearchRow.state.in_(TERMINAL), SearchRow.finished_at < before, SearchRow.archived_at.is_(None)
    )
    crowned = select(ChampionRow.search_id)
    plain = query.where(SearchRow.id.not_in(crowned), SearchRow.id.not_in(failed)).order_by(SearchRow.id)
    gone = session.scalars(plain.limit(limit)).all()
    deleted = sum(_alone(session, remove_search, search_id, failed) is not None for search_id in gone)
    rest = session.scalars(query.where(SearchRow.id.in_(crowned), SearchRow.id.not_in(failed))).all()
    thinned = sum(bool(_alone(session, _thin, search_id, failed)) for search_id in rest)
    return Collected(searches_deleted=deleted, searches_thinned=thinned)


def _alone(session: Session, work: Callable[[Session, int], bool], search_id: int, failed: set[int]) -> bool | None:
    """Do it, or leave everything of this search as it is: one that cannot be collected must not keep the others."""
    try:
        with session.begin_nested():
            return work(session, search_id)
    except Exception:
        log.exception("a search cannot be collected", search=search_id)
        failed.add(search_id)
        return None


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


def collect_workers(session: Session, before: datetime) -> Collected:
    """Delete workers that were not heard of since then, and tokens that are refused since then.

    A worker with a lease stays, as does one with a device that was set aside: only a person ends that. One token always
    stays, since a service that never had any lets everybody in.
    """
    busy = select(AttemptRow.worker_id).where(AttemptRow.state == "live")
    aside = select(DeviceRow.worker_id).where(DeviceRow.quarantined_at.is_not(None))
    silent = select(WorkerRow.id).where(
        WorkerRow.seen_at < before, WorkerRow.id.not_in(busy), WorkerRow.id.not_in(aside)
    )
    workers = session.scalars(silent).all()
    for some in _batches(workers):
        session.execute(delete(DeviceRow).where(DeviceRow.worker_id.in_(some)))
        session.execute(delete(WorkerRow).where(WorkerRow.id.in_(some)))
    refused = or_(TokenRow.revoked_at < before, TokenRow.expires_at < before)
    tokens = session.scalars(select(TokenRow.id).where(refused).order_by(TokenRow.created_at)).all()
    if len(tokens) == session.scalar(select(func.count()).select_from(TokenRow)):
        tokens = tokens[:-1]
    for some in _batches(tokens):
        session.execute(delete(SessionRow).where(SessionRow.token_id.in_(some)))
        session.execute(delete(TokenRow).where(TokenRow.id.in_(some)))
    return Collected(workers_deleted=len(workers), tokens_deleted=len(tokens))


def collect_families(session: Session, before: datetime) -> Collected:
    """Delete uploaded versions registered before then that no search used; the latest of each name stays."""
    latest = select(FamilyRow.name, func.max(FamilyRow.registered_at)).group_by(FamilyRow.name)
    old = select(FamilyRow.digest).where(
        FamilyRow.registered_at < before,
        FamilyRow.location.startswith(BUNDLE),
        FamilyRow.digest.not_in(select(SearchRow.family_digest)),
        FamilyRow.digest.not_in(select(ChampionRow.family_digest)),
        tuple_(FamilyRow.name, FamilyRow.registered_at).not_in(latest),
    )
    gone = session.scalars(old).all()
    for some in _batches(gone):
        session.execute(delete(FamilyRow).where(FamilyRow.digest.in_(some)))
    return Collected(families_deleted=len(gone))


def _batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """As many as every engine takes in one statement."""
    return (ids[begin : begin + 500] for begin in range(0, len(ids), 500))


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
    """Drop events, answers and browser sessions that nobody may ask for any more."""
    drop_old_answers(session, now)
    session.execute(delete(SessionRow).where(SessionRow.expires_at <= now))
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
