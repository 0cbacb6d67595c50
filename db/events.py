"""What happened, in an order that readers can follow without missing any of it.

An event is written in the transaction that made it true. Numbers alone would not order them: of two transactions at
once, the one that took the lower number may commit last, behind the back of a reader. Hence each event also carries
its transaction, and is shown only once no older transaction is open.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from sqlalchemy import BigInteger, delete, func, insert, select, tuple_
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Session
from sqlalchemy.sql.functions import FunctionElement

from db.models import EventRow, table
from evo.errors import InvalidInput

EventKind: TypeAlias = Literal["trial", "search", "worker"]

KEPT_EVENTS = 250_000
"""How far back a reader may resume; older events are dropped."""


class _CurrentTransaction(FunctionElement[int]):
    """Number of the transaction that writes; SQLite has one writer at a time and needs none."""

    type = BigInteger()
    inherit_cache = True


class _OldestOpen(FunctionElement[int]):
    """Number below which every transaction has ended."""

    type = BigInteger()
    inherit_cache = True


@compiles(_CurrentTransaction)
def _no_number(element: _CurrentTransaction, compiler: Any, **_: Any) -> str:
    return "0"


@compiles(_CurrentTransaction, "postgresql")
def _number(element: _CurrentTransaction, compiler: Any, **_: Any) -> str:
    return "pg_current_xact_id()::text::bigint"


@compiles(_OldestOpen)
def _none_open(element: _OldestOpen, compiler: Any, **_: Any) -> str:
    return "1"


@compiles(_OldestOpen, "postgresql")
def _oldest(element: _OldestOpen, compiler: Any, **_: Any) -> str:
    return "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"


_ADD = insert(table(EventRow)).values(transaction=_CurrentTransaction())


@dataclass(frozen=True, order=True)
class Place:
    """Where a reader is in the order of events; as text it is the id of a server-sent event."""

    transaction: int = 0
    number: int = 0

    def __str__(self) -> str:
        return f"{self.transaction}-{self.number}"

    @classmethod
    def parse(cls, text: str, field: str) -> "Place":
        """A place from its text.

        Raises:
            InvalidInput: it is none; names `field`.
        """
        parts = text.split("-")
        if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
            raise InvalidInput(field, "is not the id of an event: give one as it was received, or leave it out")
        return cls(int(parts[0]), int(parts[1]))


class Events:
    """Queries over one session; whoever opened the session commits."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def trials_ended(self, search_id: int, trial_ids: Collection[int]) -> None:
        self._add([{"kind": "trial", "search_id": search_id, "trial_id": trial_id} for trial_id in trial_ids])

    def search_changed(self, search_id: int) -> None:
        self._add([{"kind": "search", "search_id": search_id}])

    def worker_changed(self, worker_id: str) -> None:
        self._add([{"kind": "worker", "worker_id": worker_id}])

    def _add(self, events: list[dict[str, Any]]) -> None:
        if events:
            self.session.execute(_ADD, events)

    def after(self, place: Place, *, search_id: int | None = None, limit: int) -> Sequence[EventRow]:
        """Events behind a place, in order; of one search, or all."""
        order = tuple_(EventRow.transaction, EventRow.id)
        query = select(EventRow).where(order > (place.transaction, place.number), EventRow.transaction < _OldestOpen())
        if search_id is not None:
            query = query.where(EventRow.search_id == search_id)
        return self.session.scalars(query.order_by(EventRow.transaction, EventRow.id).limit(limit)).all()

    def last(self) -> Place:
        """Where a reader begins who cares only for what is yet to come."""
        query = select(EventRow).where(EventRow.transaction < _OldestOpen())
        latest = query.order_by(EventRow.transaction.desc(), EventRow.id.desc()).limit(1)
        return next((place_of(row) for row in self.session.scalars(latest)), Place())

    def keeps(self, place: Place) -> bool:
        """Whether everything behind a place is still there."""
        return place == Place() or self.session.get(EventRow, place.number) is not None

    def overdue(self) -> bool:
        """Whether dropping old events is worth a transaction."""
        first, last = self.session.execute(select(func.min(EventRow.id), func.max(EventRow.id))).one()
        return first is not None and last - first > 1.1 * KEPT_EVENTS

    def drop_old(self) -> None:
        newest = select(func.max(EventRow.id)).scalar_subquery()
        self.session.execute(delete(EventRow).where(EventRow.id <= newest - KEPT_EVENTS))


def place_of(row: EventRow) -> Place:
    return Place(row.transaction, row.id)
