"""Queries for lists of searches, champions, workers and families, which are filtered, sorted and paged."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from sqlalchemy import JSON, ColumnElement, Select, or_, select, tuple_, type_coerce
from sqlalchemy.orm import InstrumentedAttribute, Session, joinedload, selectinload

from db.models import ChampionRow, DeviceRow, FamilyRow, SearchRow, WorkerRow
from db.repositories.archive import latest_families
from db.repositories.readable import readable
from evo.search.lifecycle import State

Row = TypeVar("Row")
SortKey: TypeAlias = tuple[Any, ...]
SearchOrder: TypeAlias = Literal["newest", "oldest", "priority"]
ChampionOrder: TypeAlias = Literal["newest", "oldest", "fastest"]
WorkerOrder: TypeAlias = Literal["seen", "id"]


@dataclass(frozen=True, kw_only=True)
class Order(Generic[Row]):
    """Sort order of a list. The last column of `by` is unique, so that every position is unique."""

    by: tuple[ColumnElement[Any] | InstrumentedAttribute[Any], ...]
    descending: bool
    sort_key: Callable[[Row], SortKey]

    def after_position(self, query: Select[Row], after: SortKey | None) -> Select[Row]:
        """Sort a query, and restrict it to the rows after a position. If the position is None, all rows remain."""
        if after is not None:
            here = tuple_(*self.by)
            query = query.where(here < after if self.descending else here > after)
        return query.order_by(*(one.desc() if self.descending else one for one in self.by))


SEARCH_ORDERS: Mapping[SearchOrder, Order[SearchRow]] = {
    "newest": Order(by=(SearchRow.id,), descending=True, sort_key=lambda row: (row.id,)),
    "oldest": Order(by=(SearchRow.id,), descending=False, sort_key=lambda row: (row.id,)),
    "priority": Order(by=(-SearchRow.priority, SearchRow.id), descending=False, sort_key=lambda r: (-r.priority, r.id)),
}
CHAMPION_ORDERS: Mapping[ChampionOrder, Order[ChampionRow]] = {
    "newest": Order(by=(ChampionRow.id,), descending=True, sort_key=lambda row: (row.id,)),
    "oldest": Order(by=(ChampionRow.id,), descending=False, sort_key=lambda row: (row.id,)),
    "fastest": Order(by=(ChampionRow.time_us, ChampionRow.id), descending=False, sort_key=lambda r: (r.time_us, r.id)),
}
WORKER_ORDERS: Mapping[WorkerOrder, Order[WorkerRow]] = {
    "seen": Order(by=(WorkerRow.seen_at, WorkerRow.id), descending=True, sort_key=lambda row: (row.seen_at, row.id)),
    "id": Order(by=(WorkerRow.id,), descending=False, sort_key=lambda row: (row.id,)),
}


@dataclass(frozen=True, kw_only=True)
class SearchFilter:
    """Filter of searches. A field that is None matches all searches.

    `problem` contains the required values of problem fields. `device` is a device model. `archived` selects only
    archived searches if it is True, and only other searches if it is False. `text` must occur in the notes, the name of
    the family or the problem.
    """

    state: State | None = None
    family: str | None = None
    problem: Mapping[str, str] = field(default_factory=dict)
    device: str | None = None
    archived: bool | None = False
    text: str | None = None


@dataclass(frozen=True, kw_only=True)
class ChampionFilter:
    """Filter of champions. A field that is None matches all champions.

    `problem` contains the required values of problem fields. `device` is a device model.
    """

    family: str | None = None
    problem: Mapping[str, str] = field(default_factory=dict)
    device: str | None = None
    current_only: bool = True


def list_searches(
    session: Session, wanted: SearchFilter, order: SearchOrder, *, after: SortKey | None, limit: int
) -> Sequence[SearchRow]:
    """Return the searches that match a filter, with their families."""
    query = select(SearchRow).join(FamilyRow).options(joinedload(SearchRow.family))
    conditions = [
        None if wanted.state is None else SearchRow.state == wanted.state,
        None if wanted.family is None else FamilyRow.name == wanted.family,
        None if wanted.device is None else type_coerce(SearchRow.device, JSON)["model"].as_string() == wanted.device,
        None if wanted.archived is None else SearchRow.archived_at.is_not(None) == wanted.archived,
        *_equal_fields(SearchRow.problem_key, wanted.problem),
        None if wanted.text is None else _mentions(wanted.text, SearchRow.notes, FamilyRow.name, SearchRow.problem_key),
    ]
    query = query.where(*(condition for condition in conditions if condition is not None))
    return readable(session, SEARCH_ORDERS[order].after_position(query, after), limit=limit)


def list_champions(
    session: Session, wanted: ChampionFilter, order: ChampionOrder, *, after: SortKey | None, limit: int
) -> Sequence[ChampionRow]:
    """Return the champions that match a filter. Former champions are included unless `current_only` is set."""
    conditions = [
        ChampionRow.current if wanted.current_only else None,
        None if wanted.family is None else ChampionRow.family == wanted.family,
        None if wanted.device is None else ChampionRow.device_model == wanted.device,
        *_equal_fields(ChampionRow.problem_key, wanted.problem),
    ]
    query = select(ChampionRow).where(*(condition for condition in conditions if condition is not None))
    return readable(session, CHAMPION_ORDERS[order].after_position(query, after), limit=limit)


def list_workers(
    session: Session, *, device: str | None, order: WorkerOrder, after: SortKey | None, limit: int
) -> Sequence[WorkerRow]:
    """Return workers with their devices.

    If `device` (a device kind or model) is given, return only workers with such a device.
    """
    query = select(WorkerRow).options(selectinload(WorkerRow.devices))
    if device is not None:
        offers = select(DeviceRow.worker_id).where(or_(DeviceRow.kind == device, DeviceRow.model == device))
        query = query.where(WorkerRow.id.in_(offers))
    return readable(session, WORKER_ORDERS[order].after_position(query, after), limit=limit)


def list_families(
    session: Session, *, own: Mapping[str, str], text: str | None, after: str | None, limit: int
) -> Sequence[FamilyRow]:
    """Return the latest version of each family, sorted by name.

    For a name in `own`, return the version with the digest in `own` instead. If `text` is given, return only families
    whose names contain it.
    """
    query = latest_families(own)
    if text is not None:
        query = query.where(_mentions(text, FamilyRow.name))
    if after is not None:
        query = query.where(FamilyRow.name > after)
    return readable(session, query.order_by(FamilyRow.name), limit=limit)


def _equal_fields(key: InstrumentedAttribute[str], fields: Mapping[str, str]) -> list[ColumnElement[bool]]:
    return [("," + key + ",").contains(f",{name}={value},", autoescape=True) for name, value in fields.items()]


def _mentions(text: str, *columns: InstrumentedAttribute[str]) -> ColumnElement[bool]:
    return or_(*(column.icontains(text, autoescape=True) for column in columns))
