"""Event log, numbered in commit order so that readers miss no event.

An event is written in the transaction that made the change. Readers follow the log by event number. They see every
event only if the numbers have the order of the commits. Otherwise a transaction with a lower number could commit after
a reader has read a higher number. Events are therefore collected during a transaction, and numbered in its last step,
by one transaction at a time (`db.engine.session.Store.number_events`).

Transaction ids of the database server cannot replace these numbers, for two reasons. A restored server counts from the
beginning again, and an open transaction in another database of the same server would delay every event.
"""

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import delete, func, insert, select
from sqlalchemy.orm import Session

from db.models import EventRow, table
from evo.errors import InvalidInput

KEPT_EVENTS = 250_000
"""Number of events that are kept. A reader can resume after any kept event."""

MARK_BITS = 53
"""Number of bits of an event's random mark. Integers of this size are exact in JSON."""

_ADD = insert(table(EventRow))
_COLLECTED = "events"


@dataclass(frozen=True, order=True)
class EventPosition:
    """A reader's position in the event log. The text of a position is the id of a server-sent event.

    Attributes:
        number: number of the last event that was read. 0 if no event was read.
        mark: random mark of the last event that was read. After a backup has been restored, the event with the same
            number has a different mark.
    """

    number: int = 0
    mark: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"{self.mark}-{self.number}"

    @classmethod
    def parse(cls, text: str, field: str) -> "EventPosition":
        """Return the position that an event id describes.

        Raises:
            InvalidInput: the text is not an event id.
        """
        parts = text.split("-")
        if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
            raise InvalidInput(field, "is not an event id; send the id of a received event unchanged, or omit it")
        return cls(mark=int(parts[0]), number=int(parts[1]))


class Events:
    """Writes and reads the event log within one session. The caller commits the session."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def trials_ended(self, search_id: int, trial_ids: Collection[int]) -> None:
        self._add([{"kind": "trial", "search_id": search_id, "trial_id": trial_id} for trial_id in trial_ids])

    def search_changed(self, search_id: int) -> None:
        self._add([{"kind": "search", "search_id": search_id}])

    def worker_changed(self, worker_id: str) -> None:
        self._add([{"kind": "worker", "worker_id": worker_id}])

    def _add(self, events: list[dict[str, Any]]) -> None:
        self.session.info.setdefault(_COLLECTED, []).extend(events)

    def after(self, position: EventPosition, *, search_id: int | None = None, limit: int) -> Sequence[EventRow]:
        """Return up to `limit` events after a position, sorted by number.

        If `search_id` is given, return only events of this search.
        """
        query = select(EventRow).where(EventRow.id > position.number)
        if search_id is not None:
            query = query.where(EventRow.search_id == search_id)
        return self.session.scalars(query.order_by(EventRow.id).limit(limit)).all()

    def last(self) -> EventPosition:
        """Return the position of the latest event. A reader that starts at this position receives only later events."""
        latest = select(EventRow).order_by(EventRow.id.desc()).limit(1)
        return next((position_of(row) for row in self.session.scalars(latest)), EventPosition())

    def keeps(self, position: EventPosition) -> bool:
        """Return True if the position belongs to this log, and no event after the position was deleted.

        The result is also True if `position.number` is 0, even if the first events were deleted.
        """
        if position == EventPosition():
            return True
        row = self.session.get(EventRow, position.number)
        return row is not None and row.mark == position.mark

    def overdue(self) -> bool:
        """Return True if the log is so long that old events should be deleted."""
        first, last = self.session.execute(select(func.min(EventRow.id), func.max(EventRow.id))).one()
        return first is not None and last - first > 1.1 * KEPT_EVENTS

    def drop_old(self) -> None:
        newest = select(func.max(EventRow.id)).scalar_subquery()
        self.session.execute(delete(EventRow).where(EventRow.id <= newest - KEPT_EVENTS))


def position_of(row: EventRow) -> EventPosition:
    return EventPosition(number=row.id, mark=row.mark)


def collected(session: Session) -> list[dict[str, Any]]:
    """Return and clear the events of a session that are not written yet."""
    events: list[dict[str, Any]] = session.info.pop(_COLLECTED, [])
    return events


def write_events(session: Session, events: Sequence[dict[str, Any]]) -> None:
    """Write events to the event log. This must be the last step of a transaction."""
    rows = [{"search_id": None, "trial_id": None, "worker_id": None, **each} for each in events]
    session.execute(_ADD, [{**row, "mark": secrets.randbits(MARK_BITS)} for row in rows])
