"""Repository of ablations: the changed tunables of a champion, with their measured effects."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from db.models import AblationRow
from evo.promotion.ablation import Change, Effect
from evo.trial.results import Ablated


class Ablations:
    """Stores and reads the ablation results of searches. The caller commits the session."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def request(self, search_id: int, champion_id: int, job_id: int, changes: Sequence[Change], now: datetime) -> None:
        """Store the changes that a job will measure, in the order of the job."""
        self.session.add_all(
            AblationRow(
                search_id=search_id, champion_id=champion_id, job_id=job_id, place=index, change=change, asked_at=now
            )
            for index, change in enumerate(changes)
        )

    def refuse(self, search_id: int, champion_id: int, changes: Sequence[Change], now: datetime) -> None:
        """Store the changes for which no valid config exists. No job will measure these changes."""
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
        """Store the results of the changes that a job measured.

        Args:
            found: the result of each change, in the order of the job. The effect is None if the change was not timed.
        """
        rows = self.session.scalars(select(AblationRow).where(AblationRow.job_id == job_id).order_by(AblationRow.place))
        for row, (ablated, effect) in zip(rows, found, strict=True):
            row.ablated, row.effect, row.environment, row.ended_at = ablated, effect, environment, now

    def close(self, search_id: int, now: datetime) -> None:
        """Mark the unmeasured changes of a search as ended."""
        open_rows = update(AblationRow).where(AblationRow.search_id == search_id, AblationRow.ended_at.is_(None))
        self.session.execute(open_rows.values(ended_at=now))

    def of_search(self, search_id: int) -> list[AblationRow]:
        """Return one row with the latest result for each change of each champion of a search.

        The rows are sorted by the first request of their change.
        """
        query = select(AblationRow).where(AblationRow.search_id == search_id).order_by(AblationRow.id)
        known: dict[tuple[int, str, str], AblationRow] = {}
        for row in self.session.scalars(query):
            key = (row.champion_id, row.change.tunable, repr(row.change.value))
            if key not in known or row.ablated is not None or known[key].ablated is None:
                known[key] = row
        return list(known.values())
