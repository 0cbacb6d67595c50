"""Column types: JSON documents of `evo` classes, and UTC timestamps."""

from datetime import UTC, datetime
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import JSON, DateTime, Dialect
from sqlalchemy.types import TypeDecorator


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """Return the validator and serialiser of a type, built on first use and then cached."""
    return TypeAdapter(kind)


class Document(TypeDecorator[Any]):
    """JSON column for values of one `evo` type; values are validated when they are read.

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


class Moment(TypeDecorator[datetime]):
    """Timezone-aware timestamp, stored in UTC because SQLite has no time zones."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
