"""Removes searches, workers, tokens, artefacts, events and messages that are no longer needed."""

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta

import structlog
from sqlalchemy import Text, cast, delete, func, or_, select, tuple_
from sqlalchemy.orm import Session

from db.engine.events import Events
from db.models import (
    AblationRow,
    ArtefactRow,
    AttemptRow,
    ChampionRow,
    DeliveryRow,
    DeviceRow,
    FamilyRow,
    JobRow,
    ProposalRow,
    SearchRow,
    SessionRow,
    TokenRow,
    TrialRow,
    VariantRow,
    WorkerRow,
)
from db.repositories.answers import drop_old_answers
from db.repositories.archive import Archive
from db.repositories.artefacts import DIGEST
from db.repositories.tokens import Tokens
from evo.errors import Conflict
from evo.messages.view import Collected
from evo.search.lifecycle import TERMINAL


def remove_search(session: Session, search_id: int) -> bool:
    """Delete a search with its trials, jobs, attempts, ablations, variants, proposals and webhook message.

    The result is always True, because `_isolated` returns the result after a success, and None after a failure.
    `collect_artefacts` later deletes the artefacts of the search.

    Raises:
        NotFound: the search does not exist.
        Conflict: the search has not ended, or one of its trials is a current or former champion.
    """
    state = Archive(session).state(search_id)
    if state not in TERMINAL:
        raise Conflict(f"search {search_id} is {state}; cancel it, or let it end, before you delete it")
    champions = session.scalars(select(ChampionRow.id).where(ChampionRow.search_id == search_id)).all()
    if champions:
        listed = ", ".join(map(str, champions))
        raise Conflict(
            f"search {search_id} contains the evidence of champion {listed} and "
            "cannot be deleted; archive the search instead"
        )
    jobs = select(JobRow.id).where(JobRow.search_id == search_id)
    session.execute(delete(AttemptRow).where(AttemptRow.job_id.in_(jobs)))
    for table in (AblationRow, JobRow, TrialRow, DeliveryRow, ProposalRow):
        session.execute(delete(table).where(table.search_id == search_id))
    mentioned = or_(VariantRow.search_id == search_id, VariantRow.tuning_id == search_id)
    session.execute(delete(VariantRow).where(mentioned))
    session.execute(delete(SearchRow).where(SearchRow.id == search_id))
    Events(session).search_changed(search_id)
    return True


log = structlog.get_logger("chores")

YOUNG = timedelta(days=1)
"""Minimum age of a deleted artefact. A younger artefact may belong to a report that has not arrived yet."""


def collect_searches(
    session: Session, before: datetime, limit: int | None, failed: Collection[int]
) -> tuple[Collected, set[int]]:
    """Delete searches that ended before `before`. Archived searches are kept.

    If a search found a champion, delete only the evaluation jobs and reports of the trials that were not promoted.

    Args:
        limit: maximum number of searches without a champion that are deleted. None if there is no limit.
        failed: ids of searches to skip, which an earlier call could not delete.

    Returns:
        The numbers of deleted items, and the ids of searches that cannot be deleted.
    """
    query = select(SearchRow.id).where(
        SearchRow.state.in_(TERMINAL), SearchRow.finished_at < before, SearchRow.archived_at.is_(None)
    )
    crowned = select(ChampionRow.search_id)
    plain = query.where(SearchRow.id.not_in(crowned), SearchRow.id.not_in(failed)).order_by(SearchRow.id)
    gone = session.scalars(plain.limit(limit)).all()
    deleted = {search_id: _isolated(session, remove_search, search_id) for search_id in gone}
    rest = session.scalars(query.where(SearchRow.id.in_(crowned), SearchRow.id.not_in(failed))).all()
    thinned = {search_id: _isolated(session, _thin, search_id) for search_id in rest}
    counted = Collected(
        searches_deleted=sum(done is not None for done in deleted.values()),
        searches_thinned=sum(bool(done) for done in thinned.values()),
    )
    return counted, {search_id for search_id, done in (deleted | thinned).items() if done is None}


def _isolated(session: Session, work: Callable[[Session, int], bool], search_id: int) -> bool | None:
    """Call `work` in a savepoint, so that a failure does not prevent other deletions.

    Return the result of `work`, or None if it fails.
    """
    try:
        with session.begin_nested():
            return work(session, search_id)
    except Exception:
        log.exception("a search cannot be deleted", search=search_id)
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
    """Delete workers that have sent no request since `before`, and tokens that expired or were revoked before `before`.

    Workers with a lease are kept. Workers with a quarantined device are also kept, because only a person may end a
    quarantine. One token is always kept, because a service without tokens admits all local users.
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
    """Delete unused family versions that were uploaded or registered by path before `before`.

    The latest version of each family is kept. Built-in families are also kept, because a service registers them only
    once per process.
    """
    latest = select(FamilyRow.name, func.max(FamilyRow.registered_at)).group_by(FamilyRow.name)
    old = select(FamilyRow.digest).where(
        FamilyRow.registered_at < before,
        FamilyRow.location.is_not(None),
        FamilyRow.digest.not_in(select(SearchRow.family_digest)),
        FamilyRow.digest.not_in(select(ChampionRow.family_digest)),
        tuple_(FamilyRow.name, FamilyRow.registered_at).not_in(latest),
    )
    gone = session.scalars(old).all()
    for some in _batches(gone):
        session.execute(delete(FamilyRow).where(FamilyRow.digest.in_(some)))
    return Collected(families_deleted=len(gone))


def _batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the ids in batches of 500, which every database engine accepts in one statement."""
    return (ids[begin : begin + 500] for begin in range(0, len(ids), 500))


def collect_artefacts(session: Session, limit_bytes: int, now: datetime) -> tuple[Collected, list[str]]:
    """Delete artefact rows, oldest first, until the total size is within the limit.

    Artefacts that champions and families need are kept, and so are recent artefacts (see `_settled`).

    Returns:
        The numbers of deleted items, and the digests of the deleted artefacts. The caller must remove their files after
        this transaction is committed.
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
    """Delete old events, stored responses and expired browser sessions.

    Also correct sessions and tokens that were created while a clock was ahead (see `Tokens.reset_ahead`).
    """
    drop_old_answers(session, now)
    session.execute(delete(SessionRow).where(SessionRow.expires_at <= now))
    Tokens(session).reset_ahead(now)
    if Events(session).overdue():
        Events(session).drop_old()


def _settled(session: Session, now: datetime) -> datetime:
    """Return the cutoff for deletion: no future champion needs artefacts that were stored before this time."""
    unfinished = select(func.min(SearchRow.created_at)).where(SearchRow.state.not_in(TERMINAL))
    begun = session.scalar(unfinished)
    return now - YOUNG if begun is None else min(begun, now - YOUNG)


def _needed(session: Session) -> set[str]:
    """Return the digests of artefacts that champions and families need."""
    evaluated = (
        select(AttemptRow.result)
        .join(AttemptRow.job)
        .where(
            JobRow.trial_id.in_(select(ChampionRow.trial_id)), JobRow.kind == "evaluate", AttemptRow.result.is_not(None)
        )
    )
    # Documents are read as text, so that artefacts are also kept if their document is unreadable.
    texts = [
        *session.scalars(select(cast(ChampionRow.evidence, Text))),
        *session.scalars(evaluated.with_only_columns(cast(AttemptRow.result, Text))),
    ]
    needed = {digest for text in texts for digest in DIGEST.findall(text)}
    locations = session.scalars(select(FamilyRow.location).where(FamilyRow.location.is_not(None)))
    return needed | {str(location).rpartition(":")[2] for location in locations}
