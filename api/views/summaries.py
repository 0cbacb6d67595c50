"""Short summaries of searches for live lists."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.orm import Session

from api.views import Tally, elapsed_s
from db.models import SearchRow
from db.repositories.archive import Archive
from db.repositories.champions import Champions
from evo.messages.event import SearchEvent


def search_summaries(session: Session, search_ids: Sequence[int], now: datetime) -> tuple[SearchEvent, ...]:
    """Return the current summaries of searches. Deleted searches are left out."""
    counts = Archive(session).counts(search_ids)
    return tuple(_summary(session, row, counts[row.id], now) for row in Archive(session).searches_of(search_ids))


def _summary(session: Session, row: SearchRow, counts: dict[str | None, int], now: datetime) -> SearchEvent:
    tally, champion = Tally.of(session, row, counts), Champions(session).incumbent(row)
    return SearchEvent(
        id=row.id,
        state=row.state,
        reason=row.reason,
        family=row.family.name,
        problem_key=row.problem_key,
        device_model=row.device.model,
        asked=tally.asked,
        finished=tally.finished,
        counts=tally.by_kind,
        best=tally.best,
        speedup=tally.speedup,
        champion_id=None if champion is None else champion.id,
        champion_us=None if champion is None else champion.time_us,
        elapsed_s=elapsed_s(row, now),
        started_at=row.started_at,
        finished_at=row.finished_at,
    )
