"""Removal of a search."""

from sqlalchemy import delete, or_, select
from sqlalchemy.orm import Session

from db.engine.events import Events
from db.models import (
    AblationRow,
    AttemptRow,
    ChampionRow,
    DeliveryRow,
    JobRow,
    ProposalRow,
    SearchRow,
    TrialRow,
    VariantRow,
)
from db.repositories.archive import Archive
from evo.errors import Conflict
from evo.search.lifecycle import TERMINAL


def remove_search(session: Session, search_id: int) -> bool:
    """Delete a search with its trials, jobs, attempts and messages, and return True. Artefacts are collected later.

    Raises:
        NotFound: there is no such search.
        Conflict: it has not ended, or it holds the evidence of a champion.
    """
    state = Archive(session).state(search_id)
    if state not in TERMINAL:
        raise Conflict(f"search {search_id} is {state}: cancel it, or let it end, before you delete it")
    champions = session.scalars(select(ChampionRow.id).where(ChampionRow.search_id == search_id)).all()
    if champions:
        listed = ", ".join(map(str, champions))
        raise Conflict(f"the evidence of champion {listed} rests on search {search_id}: archive it instead")
    jobs = select(JobRow.id).where(JobRow.search_id == search_id)
    session.execute(delete(AttemptRow).where(AttemptRow.job_id.in_(jobs)))
    for table in (AblationRow, JobRow, TrialRow, DeliveryRow, ProposalRow):
        session.execute(delete(table).where(table.search_id == search_id))
    mentioned = or_(VariantRow.search_id == search_id, VariantRow.tuning_id == search_id)
    session.execute(delete(VariantRow).where(mentioned))
    session.execute(delete(SearchRow).where(SearchRow.id == search_id))
    Events(session).search_changed(search_id)
    return True
