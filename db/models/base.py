"""What all tables have in common. They store what `evo` decided and decide nothing."""

from datetime import datetime
from typing import Any, cast

from sqlalchemy import MetaData, String, Table
from sqlalchemy.orm import DeclarativeBase

from db.models.columns import Moment

NUMBERED_ONCE: dict[str, Any] = {"sqlite_autoincrement": True}
"""For tables whose numbers leave the database: the number of a deleted row is not given to another one."""


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {datetime: Moment(), str: String()}  # noqa: RUF012 — SQLAlchemy reads a plain dict


def table(row: type[Base]) -> Table:
    """The table itself, for statements that take and give columns: objects cost many times as much."""
    return cast(Table, row.__table__)
