"""Queries and views that skip unreadable rows, so that a list with an unreadable row can be shown.

Loading a row fails with a `ValueError` if a JSON document in the row is damaged or no longer matches its type. If a
query selects only the unreadable row, the user gets an error that names the item and a remedy.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog
from sqlalchemy import JSON, Column, ColumnElement, Select, cast, func, inspect, literal, select, type_coerce
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session
from sqlalchemy.types import NullType

from db.engine.session import Database
from db.engine.unavailable import StoreUnavailable
from db.models import (
    AblationRow,
    AttemptRow,
    Base,
    ChampionRow,
    DeviceRow,
    FamilyRow,
    JobRow,
    ProposalRow,
    SearchRow,
    TrialRow,
    VariantRow,
)
from db.models.columns import Document, UnreadableValue

Row = TypeVar("Row")
Item = TypeVar("Item")
Found = TypeVar("Found")

MOST_SKIPPED = 1_000
"""Maximum number of unreadable rows that a query with a limit replaces with later rows."""

log = structlog.get_logger("database")


def readable(session: Session, query: Select[Row], *, limit: int | None = None) -> Sequence[Row]:
    """Return the rows of a query, without unreadable rows.

    Args:
        limit: maximum number of rows to return; None for all rows. Later rows of the query replace unreadable rows,
            because a page with fewer rows would look like the last page.
    """
    try:
        return session.scalars(query.limit(limit) if limit is not None else query).all()
    except ValueError:
        pass
    entity = query.column_descriptions[0]["entity"]
    keys = inspect(entity).primary_key
    found: list[Row] = []
    key_query = query.with_only_columns(*keys, maintain_column_froms=True)
    for place in session.execute(key_query if limit is None else key_query.limit(limit + MOST_SKIPPED)).all():
        if len(found) == limit:
            break
        one = query.where(*(key == value for key, value in zip(keys, place, strict=True)))
        try:
            found += session.scalars(one).all()
        except ValueError as error:
            log.error("a row cannot be read", table=entity.__tablename__, key=list(place), reason=str(error))
    return found


def readable_items(
    items: Sequence[Item],
    read: Callable[[Sequence[Item]], Iterable[Found]],
    *,
    what: str,
    name: Callable[[Item], object],
) -> tuple[list[Found], list[Item]]:
    """Read items together or, if this fails, one by one. Return the values, and the items that are unreadable.

    Args:
        what: noun for an item in log messages.
        name: function that returns the id of an item for log messages.

    Raises:
        StoreUnavailable: the database cannot be read.
    """
    try:
        return list(read(items)), []
    except StoreUnavailable:
        raise
    except Exception as error:
        if len(items) == 1:
            log.exception("an item cannot be read", what=what, id=name(items[0]), reason=str(error))
            return [], list(items)
    parts = [readable_items([each], read, what=what, name=name) for each in items]
    return [one for found, _ in parts for one in found], [each for _, failed in parts for each in failed]


BACKUP = "restore a backup of the database"

MOST_NAMED = 3
"""Maximum number of items that one error message names. Several items may contain the same unreadable value."""


class UnreadableItem(UnreadableValue):
    """Raised if an item of the database cannot be read. The message names the item and a remedy."""

    def __init__(self, error: UnreadableValue, message: str) -> None:
        super().__init__(error.kind, error.stored, error.reason)
        self.args = (message,)
        self.plain = message


@dataclass(frozen=True, kw_only=True)
class Names:
    """Human-readable names for the rows of a table.

    Attributes:
        keys: columns that identify a row.
        name: format string with one placeholder per key column.
        of_search: True if the first key column is the id of the search that owns the row.
    """

    keys: Sequence[Any]
    name: str
    of_search: bool = True


_SEARCH_OF_ATTEMPT = select(JobRow.search_id).where(JobRow.id == AttemptRow.job_id).scalar_subquery()

NAMES: Mapping[str, Names] = {
    "searches": Names(keys=(SearchRow.id,), name="search {}"),
    "trials": Names(keys=(TrialRow.search_id, TrialRow.number), name="trial {1} of search {0}"),
    "jobs": Names(keys=(JobRow.search_id, JobRow.id), name="job {1} of search {0}"),
    "attempts": Names(keys=(_SEARCH_OF_ATTEMPT, AttemptRow.id), name="attempt {1} of search {0}"),
    "variants": Names(keys=(VariantRow.search_id, VariantRow.number), name="variant {1} of search {0}"),
    "proposals": Names(keys=(ProposalRow.search_id, ProposalRow.number), name="proposal {1} of search {0}"),
    "ablations": Names(keys=(AblationRow.search_id, AblationRow.id), name="ablation {1} of search {0}"),
    "champions": Names(keys=(ChampionRow.id,), name="champion {}", of_search=False),
    "families": Names(keys=(FamilyRow.name, FamilyRow.digest), name="family {0} ({1:.12})", of_search=False),
    "devices": Names(keys=(DeviceRow.worker_id, DeviceRow.uuid), name="device {1} of worker {0}", of_search=False),
}


def named(database: Database, error: UnreadableValue) -> UnreadableItem:
    """Return an error that names the items with the unreadable value, and a remedy."""
    column: Column[Any] | None = None
    found: Sequence[Any] = ()
    try:
        with database.read() as session:
            column, found = _holders(session, error)
    except StoreUnavailable as unavailable:  # the whole file is damaged
        log.warning("the items with the unreadable value cannot be found", reason=str(unavailable))
    except Exception:
        log.exception("finding the items with the unreadable value failed", reason=error.reason)
    return UnreadableItem(error, _message(column, found, error.reason))


def _holders(session: Session, error: UnreadableValue) -> tuple[Column[Any] | None, Sequence[Any]]:
    """Return the column of an unreadable value, and the keys of the rows that contain the value.

    The column is None if it is unknown.
    """
    columns = [column for each in Base.metadata.sorted_tables for column in each.columns]
    own = next((each for each in columns if each.type is error.kind), None)
    if own is not None:
        same: ColumnElement[bool] = type_coerce(own, NullType()) == literal(error.stored, NullType())
        if isinstance(own.type, Document) and session.get_bind().dialect.name == "postgresql":
            same = cast(type_coerce(own, JSON()), JSONB) == cast(literal(error.stored, JSON()), JSONB)
        return own, _rows(session, own, same)
    for column in columns:  # SQLite failed to parse a document that is not JSON
        if isinstance(column.type, Document):
            broken = column.is_not(None) & (func.json_valid(column) == 0)
            if found := _rows(session, column, broken):
                return column, found
    return None, ()


def _rows(session: Session, column: Column[Any], condition: ColumnElement[bool]) -> Sequence[Any]:
    names = NAMES.get(column.table.name)
    keys = column.table.primary_key if names is None else names.keys
    return session.execute(select(*keys).where(condition).limit(MOST_NAMED)).all()


def _message(column: Column[Any] | None, found: Sequence[Any], reason: str) -> str:
    if column is None:
        return f"a value in the database cannot be read ({reason}): {BACKUP}"
    names = NAMES.get(column.table.name)
    items, ways = f"an item of the table {column.table.name}", [BACKUP]
    if names is not None and found:
        items = " or ".join(names.name.format(*each) for each in found)
        if names.of_search:
            ways += [
                f"delete search {each} (kernel-evo delete {each})" for each in dict.fromkeys(key[0] for key in found)
            ]
    return (
        f"{items} cannot be read: its {column.name} in the database is damaged, or was written by another version of "
        f"kernel-evo ({reason}). Remedy: {', or '.join(ways)}"
    )
