"""Repository of webhook messages about ended searches. Pending messages survive a restart of the service."""

import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, exists, or_, select, update
from sqlalchemy.orm import Session

from db.models import DeliveryRow, SearchRow, Webhook
from evo.search.lifecycle import TERMINAL

PAUSES_S = (5.0, 30.0, 120.0, 600.0, 3600.0, 6 * 3600.0, 18 * 3600.0)
"""Pauses between delivery attempts, in seconds. The last attempt takes place about a day after the first."""

UNDER_WAY_S = 60.0
"""Seconds for which other processes skip a message after one process has started to deliver it."""


@dataclass(frozen=True)
class Unannounced:
    """An ended search with a webhook for which no message is stored yet."""

    search_id: int
    webhook: Webhook


@dataclass(frozen=True)
class Due:
    """A webhook message that is due for delivery. `retried` is True if an earlier delivery attempt failed."""

    id: int
    url: str
    retried: bool


class Deliveries:
    """Stores webhook messages and their delivery attempts within one session. The caller commits the session."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def unannounced(self, limit: int = 20) -> Sequence[Unannounced]:
        """Return up to `limit` ended searches that have a webhook, but no stored webhook message yet, oldest first."""
        query = select(SearchRow.id, SearchRow.webhook).where(
            SearchRow.webhook.is_not(None),
            SearchRow.state.in_(TERMINAL),
            ~exists().where(DeliveryRow.search_id == SearchRow.id),
        )
        rows = self.session.execute(query.order_by(SearchRow.id).limit(limit))
        return [Unannounced(search_id, webhook) for search_id, webhook in rows if webhook is not None]

    def pending(self, now: datetime) -> bool:
        """Return True if a webhook message must be stored or delivered now."""
        due = select(DeliveryRow.id).where(DeliveryRow.next_at <= now).limit(1)
        return self.session.scalar(due) is not None or bool(self.unannounced(1))

    def note(self, ended: Unannounced, message: str, now: datetime, *, error: str | None = None) -> None:
        """Queue a webhook message for delivery. A message with an `error` is stored, but never delivered."""
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

    def due(self, now: datetime) -> Iterator[Due]:
        """Yield the webhook messages that are due: first those without a delivery attempt, then the others.

        Both groups are sorted by the time at which they became due.
        """
        waiting = select(DeliveryRow.id, DeliveryRow.url, DeliveryRow.attempts).where(DeliveryRow.next_at <= now)
        ordered = waiting.order_by(DeliveryRow.attempts > 0, DeliveryRow.next_at, DeliveryRow.id)
        for row in self.session.execute(ordered.execution_options(yield_per=100)):
            yield Due(row.id, row.url, row.attempts > 0)

    def claim(self, ids: Collection[int], now: datetime) -> Sequence[DeliveryRow]:
        """Claim the webhook messages that are still due, and return them.

        Other processes skip these messages for `UNDER_WAY_S` seconds.
        """
        taken = (
            update(DeliveryRow)
            .where(DeliveryRow.id.in_(ids), DeliveryRow.next_at <= now)
            .values(next_at=now + timedelta(seconds=UNDER_WAY_S), attempts=DeliveryRow.attempts + 1)
            .returning(DeliveryRow)
        )
        return self.session.scalars(taken.execution_options(synchronize_session=False)).all()

    def delivered(self, delivery_id: int, now: datetime) -> None:
        """Record a successful delivery, unless the message was deleted with its search."""
        if (row := self.session.get(DeliveryRow, delivery_id)) is not None:
            row.next_at, row.delivered_at, row.error = None, now, None

    def failed(self, delivery_id: int, error: str, now: datetime) -> None:
        """Record a failed delivery attempt, and schedule the next one, if any attempts are left.

        Nothing is recorded if the message was deleted with its search.
        """
        if (row := self.session.get(DeliveryRow, delivery_id)) is None:
            return
        again = row.attempts <= len(PAUSES_S)
        row.error = error
        row.next_at = now + timedelta(seconds=PAUSES_S[row.attempts - 1]) if again else None

    def any_ahead(self, now: datetime, slack: timedelta) -> bool:
        """Return True if a delivery attempt is scheduled too late, because the clock was ahead.

        It is too late if it is later than the retry schedule permits: `now`, plus the pause before this attempt, plus
        `slack`.
        """
        return self.session.scalar(select(DeliveryRow.id).where(_ahead(now, slack)).limit(1)) is not None

    def reset_ahead(self, now: datetime, slack: timedelta) -> None:
        """Reschedule to `now` every delivery attempt that is scheduled too late (see `any_ahead`)."""
        late = update(DeliveryRow).where(_ahead(now, slack)).values(next_at=now)
        self.session.execute(late.execution_options(synchronize_session=False))

    def bring_forward(self, by: timedelta) -> None:
        """Schedule pending webhook messages earlier by `by`, because the clock was set back by this duration."""
        for row in self.session.scalars(select(DeliveryRow).where(DeliveryRow.next_at.is_not(None))):
            row.next_at = None if row.next_at is None else row.next_at - by

    def of_searches(self, search_ids: Collection[int]) -> dict[int, DeliveryRow]:
        """Return the webhook message of each search that has one, by search id."""
        rows = self.session.scalars(select(DeliveryRow).where(DeliveryRow.search_id.in_(search_ids)))
        return {row.search_id: row for row in rows}


def _ahead(now: datetime, slack: timedelta) -> ColumnElement[bool]:
    """Return the SQL condition for delivery attempts that are scheduled too late (see `Deliveries.any_ahead`)."""
    pauses = (UNDER_WAY_S, *(max(UNDER_WAY_S, pause_s) for pause_s in PAUSES_S))
    latest = [now + timedelta(seconds=pause_s) + slack for pause_s in pauses]
    beyond = DeliveryRow.next_at > latest[-1]
    return or_(beyond, *((DeliveryRow.attempts == n) & (DeliveryRow.next_at > end) for n, end in enumerate(latest)))
