"""Base class of all tables, and column types for JSON documents of `evo` classes and for UTC timestamps."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import JSON, DateTime, Dialect, MetaData, String, Table
from sqlalchemy.orm import DeclarativeBase
from sqlalchemy.types import TypeDecorator, TypeEngine

from evo.errors import EvoError

Read = TypeVar("Read")


class UnreadableValue(EvoError, ValueError):
    """Raised if a stored value is damaged, or has a form that this version cannot read.

    Args:
        kind: type of the column with the value. None if the database does not report the column.
        stored: the value that the driver returned.
        reason: description of the fault, without the value itself.
    """

    code = "unreadable"

    def __init__(self, kind: TypeEngine[Any] | None, stored: object, reason: str) -> None:
        super().__init__(f"a value in the database cannot be read ({reason})")
        self.kind = kind
        self.stored = stored
        self.reason = reason


class Stored(TypeDecorator[Read]):
    """Column type that raises `UnreadableValue` for values that it cannot read.

    Attributes:
        column_type: the type object in the model class. SQLAlchemy uses copies of this object to read values.
    """

    impl: TypeEngine[Any] | type[TypeEngine[Any]] = JSON
    cache_ok = True

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.column_type: TypeEngine[Any] = self

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Read | None] | None:
        process = super().result_processor(dialect, coltype)
        if process is None:
            return None

        def read(stored: Any) -> Read | None:
            try:
                return process(stored)
            except Exception as error:  # reading a damaged value may raise any error
                raise UnreadableValue(self.column_type, stored, _reason(error)) from error

        return read


class Document(Stored[Any]):
    """JSON column for values of one Python type. Values are validated when they are read.

    Args:
        kind: a dataclass, a union of dataclasses, or any other annotation that Pydantic understands.
    """

    impl = JSON
    cache_ok = True

    def __init__(self, kind: Any) -> None:
        super().__init__(none_as_null=True)
        self.kind = kind

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else adapter(self.kind).dump_python(value, mode="json")

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else adapter(self.kind).validate_python(value, strict=False)


class Moment(Stored[datetime]):
    """Timezone-aware timestamp, stored in UTC because SQLite has no time zones."""

    impl = DateTime
    cache_ok = True

    def __init__(self) -> None:
        super().__init__(timezone=True)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """Return the validator and serialiser of a type, built on first use and then cached."""
    return TypeAdapter(kind)


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_input=False, include_url=False)[0]
        return ": ".join(filter(None, (".".join(str(part) for part in first["loc"]), first["msg"])))[:200]
    return f"{type(error).__name__}: {error}"[:200]


NUMBERED_ONCE: dict[str, Any] = {"sqlite_autoincrement": True}
"""Table arguments that prevent SQLite from reusing ids of deleted rows, for tables whose ids clients keep."""


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {datetime: Moment, str: String()}  # noqa: RUF012 — SQLAlchemy reads a plain dict


def table(row: type[Base]) -> Table:
    """Return the table of a model, for bulk statements on columns, which are much faster than ORM objects."""
    return cast(Table, row.__table__)
