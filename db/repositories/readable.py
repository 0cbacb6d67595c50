"""Queries and views that skip what cannot be read, so that one unreadable row does not end a list.

A JSON document that is damaged, or no longer matches its type, fails with a `ValueError` when its row is loaded.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import structlog
from sqlalchemy import Select, inspect
from sqlalchemy.orm import Session

from db.engine.unavailable import StoreUnavailable

Row = TypeVar("Row")
Item = TypeVar("Item")
Found = TypeVar("Found")

MOST_SKIPPED = 1_000
"""Unreadable rows that one query skips before its answer is shorter than asked for."""

log = structlog.get_logger("database")


def readable(session: Session, query: Select[Row], *, limit: int | None = None) -> Sequence[Row]:
    """Return the rows of a query without the unreadable ones.

    Args:
        limit: number of rows to return. Further rows take the place of unreadable ones; otherwise a list that is read
            in pages would seem to end before them.
    """
    try:
        return session.scalars(query.limit(limit) if limit is not None else query).all()
    except ValueError:
        pass
    entity = query.column_descriptions[0]["entity"]
    keys = inspect(entity).primary_key
    found: list[Row] = []
    places = query.with_only_columns(*keys, maintain_column_froms=True)
    for place in session.execute(places if limit is None else places.limit(limit + MOST_SKIPPED)).all():
        if len(found) == limit:
            break
        one = query.where(*(key == value for key, value in zip(keys, place, strict=True)))
        try:
            found += session.scalars(one).all()
        except ValueError as error:
            log.error("a row cannot be read", table=entity.__tablename__, key=list(place), reason=str(error))
    return found


def readable_items(
    items: Sequence[Item], read: Callable[[Sequence[Item]], Iterable[Found]], *, name: Callable[[Item], object]
) -> tuple[list[Found], list[Item]]:
    """Read items together; if that fails, read each alone. Return the values read and the unreadable items.

    Args:
        name: returns the id of an item for the log.

    Raises:
        StoreUnavailable: the database cannot be read.
    """
    try:
        return list(read(items)), []
    except StoreUnavailable:
        raise
    except Exception as error:
        if len(items) == 1:
            log.exception("an item cannot be read", id=name(items[0]), reason=str(error))
            return [], list(items)
    parts = [readable_items([each], read, name=name) for each in items]
    return [one for found, _ in parts for one in found], [each for _, failed in parts for each in failed]
