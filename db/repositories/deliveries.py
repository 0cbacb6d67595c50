"""Messages that a search ended: noted, due, delivered or given up. All of it outlives the process that began it."""

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import exists, select, update
from sqlalchemy.orm import Session

from db.models import DeliveryRow, SearchRow, Webhook
from evo.search.lifecycle import TERMINAL

PAUSES_S = (5.0, 30.0, 120.0, 600.0, 3600.0, 6 * 3600.0, 18 * 3600.0)
"""Between two attempts; after the last one a message is given up, a day and some hours after the first."""

UNDER_WAY_S = 60.0
"""How long one attempt is left to the process that began it."""


@dataclass(frozen=True)
class Unannounced:
    """A search that has ended and whose receiver is to be told."""

    search_id: int
    webhook: Webhook


class Deliveries:
    """Queries over one session; whoever opened the session commits."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def unannounced(self, limit: int = 20) -> Sequence[Unannounced]:
        """Return searches that ended with a webhook and without a message, the oldest first."""
        query = select(SearchRow.id, SearchRow.webhook).where(
            SearchRow.webhook.is_not(None),
            SearchRow.state.in_(TERMINAL),
            ~exists().where(DeliveryRow.search_id == SearchRow.id),
        )
        rows = self.session.execute(query.order_by(SearchRow.id).limit(limit))
        return [Unannounced(search_id, webhook) for search_id, webhook in rows if webhook is not None]

    def pending(self, now: datetime) -> bool:
        """Whether there is anything to note or to deliver."""
        due = select(DeliveryRow.id).where(DeliveryRow.next_at <= now).limit(1)
        return self.session.scalar(due) is not None or bool(self.unannounced(1))

    def note(self, ended: Unannounced, message: str, now: datetime, *, error: str | None = None) -> None:
        """Have a message delivered, or note why there is none to deliver."""
        row = DeliveryRow(
            search_id=ended.search_id,
            message_id=f"msg_{uuid.uuid4().hex}",
            url=ended.webhook.url,
            secret=ended.webhook.secret,
            message=message,
            created_at=now,
            next_at=now if error is None else None,
            error=error,
        )
        self.session.add(row)

    def due(self, now: datetime, limit: int = 20) -> Sequence[DeliveryRow]:
        """Messages to deliver now; no other process takes them meanwhile."""
        waiting = select(DeliveryRow.id).where(DeliveryRow.next_at <= now).order_by(DeliveryRow.next_at).limit(limit)
        taken = (
            update(DeliveryRow)
            .where(DeliveryRow.id.in_(waiting), DeliveryRow.next_at <= now)
            .values(next_at=now + timedelta(seconds=UNDER_WAY_S), attempts=DeliveryRow.attempts + 1)
            .returning(DeliveryRow)
        )
        return self.session.scalars(taken.execution_options(synchronize_session=False)).all()

    def delivered(self, delivery_id: int, now: datetime) -> None:
        row = self.session.get_one(DeliveryRow, delivery_id)
        row.next_at, row.delivered_at, row.error = None, now, None

    def failed(self, delivery_id: int, error: str, now: datetime) -> None:
        """Try again later, unless it was the last attempt."""
        row = self.session.get_one(DeliveryRow, delivery_id)
        again = row.attempts <= len(PAUSES_S)
        row.error = error
        row.next_at = now + timedelta(seconds=PAUSES_S[row.attempts - 1]) if again else None

    def bring_forward(self, by: timedelta) -> None:
        """Deliver what is pending earlier: the clock was set back by this since it was put off."""
        for row in self.session.scalars(select(DeliveryRow).where(DeliveryRow.next_at.is_not(None))):
            row.next_at = None if row.next_at is None else row.next_at - by

    def of(self, search_ids: Collection[int]) -> dict[int, DeliveryRow]:
        """The messages of searches."""
        rows = self.session.scalars(select(DeliveryRow).where(DeliveryRow.search_id.in_(search_ids)))
        return {row.search_id: row for row in rows}
