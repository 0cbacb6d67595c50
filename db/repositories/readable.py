"""Queries that skip unreadable rows."""

from collections.abc import Sequence
from typing import TypeVar

import structlog
from pydantic import ValidationError
from sqlalchemy import Select, inspect
from sqlalchemy.orm import Session

Row = TypeVar("Row")

log = structlog.get_logger("database")


def readable(session: Session, query: Select[Row]) -> Sequence[Row]:
    """Return the rows of a query, without rows whose JSON documents no longer match their type."""
    try:
        return session.scalars(query).all()
    except ValidationError:
        pass
    entity = query.column_descriptions[0]["entity"]
    keys = inspect(entity).primary_key
    found: list[Row] = []
    for place in session.execute(query.with_only_columns(*keys, maintain_column_froms=True)).all():
        one = query.where(*(key == value for key, value in zip(keys, place, strict=True)))
        try:
            found += session.scalars(one).all()
        except ValidationError as error:
            log.error("a row cannot be read", table=entity.__tablename__, key=list(place), reason=str(error))
    return found
