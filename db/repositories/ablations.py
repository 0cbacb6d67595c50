"""Repository of ablations: the requested changes of a champion and their measured effects."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from db.models import AblationRow
from evo.promotion.ablation import Change, Effect
from evo.results import Ablated


class Ablations:
    """Queries over one session; the code that opened the session commits."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def request(self, search_id: int, champion_id: int, job_id: int, changes: Sequence[Change], now: datetime) -> None:
        """Store the changes that a job measures, in the job's order."""
        self.session.add_all(
            AblationRow(
                search_id=search_id, champion_id=champion_id, job_id=job_id, place=place, change=change, asked_at=now
            )
            for place, change in enumerate(changes)
        )

    def refuse(self, search_id: int, champion_id: int, changes: Sequence[Change], now: datetime) -> None:
        """Store changes that lead to no valid config, as ended."""
        self.session.add_all(
            AblationRow(search_id=search_id, champion_id=champion_id, change=change, asked_at=now, ended_at=now)
            for change in changes
        )

    def end(
        self,
        job_id: int,
        found: Sequence[tuple[Ablated, Effect | None]],
        environment: Mapping[str, str],
        now: datetime,
    ) -> None:
        """Store the result of each of a job's changes."""
        rows = self.session.scalars(select(AblationRow).where(AblationRow.job_id == job_id).order_by(AblationRow.place))
        for row, (ablated, effect) in zip(rows, found, strict=True):
            row.ablated, row.effect, row.environment, row.ended_at = ablated, effect, environment, now

    def close(self, search_id: int, now: datetime) -> None:
        """End the changes of a search that were not measured."""
        open_rows = update(AblationRow).where(AblationRow.search_id == search_id, AblationRow.ended_at.is_(None))
        self.session.execute(open_rows.values(ended_at=now))

    def of(self, search_id: int) -> list[AblationRow]:
        """Return the latest result of each change of each champion of a search, in the order of first request."""
        query = select(AblationRow).where(AblationRow.search_id == search_id).order_by(AblationRow.id)
        known: dict[tuple[int, str, str], AblationRow] = {}
        for row in self.session.scalars(query):
            key = (row.champion_id, row.change.tunable, repr(row.change.value))
            if key not in known or row.ablated is not None or known[key].ablated is None:
                known[key] = row
        return list(known.values())
