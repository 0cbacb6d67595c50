"""Opaque cursors: a place in an ordered list, which stays right while the list grows."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, FiniteFloat, StrictBool, StrictStr, TypeAdapter

from api.schemas import Priority
from evo.errors import InvalidInput
from evo.text.limits import LARGEST_ID

T = TypeVar("T")


class PageQuery(BaseModel):
    """Which part of a list; a query parameter that does not exist is an error, not a surprise later."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cursor: str | None = Field(default=None, max_length=500, description="`next` of the page before")
    limit: int = Field(default=50, ge=1, le=500, description="items of one page")


Place = Annotated[int, Field(ge=0, le=LARGEST_ID)]
Text = Annotated[str, Field(max_length=200)]
NUMBER: TypeAdapter[int] = TypeAdapter(Place)
ID: TypeAdapter[tuple[Any, ...]] = TypeAdapter(tuple[Place])
TEXT: TypeAdapter[tuple[Any, ...]] = TypeAdapter(tuple[Text])
SORTED: Mapping[str, TypeAdapter[tuple[Any, ...]]] = {
    "newest": ID,
    "oldest": ID,
    "priority": TypeAdapter(tuple[Priority, Place]),
    "fastest": TypeAdapter(tuple[FiniteFloat, Place]),
    "seen": TypeAdapter(tuple[AwareDatetime, Text]),
    "id": TEXT,
}
"""The shape of a place in a list, by what it is sorted by."""
TRIAL: TypeAdapter[tuple[bool | float | str | None, int, int]] = TypeAdapter(
    tuple[StrictBool | FiniteFloat | StrictStr | None, Place, Place]
)
"""What a list of trials is sorted by, the number and the id of a trial."""


def to_cursor(place: object) -> str:
    """The cursor of the page that begins after this place."""
    return base64.urlsafe_b64encode(json.dumps(place, default=datetime.isoformat).encode()).decode().rstrip("=")


def place_of(cursor: str | None, shape: TypeAdapter[T]) -> T | None:
    """The place a cursor stands for; None at the beginning.

    Raises:
        InvalidInput: it is no cursor of this list.
    """
    if cursor is None:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        return shape.validate_json(base64.urlsafe_b64decode(padded.encode()))
    except ValueError as error:
        raise InvalidInput("cursor", "is not one of this list: give `next` of the page before, unchanged") from error


def page_of(rows: Sequence[T], limit: int, place: Callable[[T], object]) -> tuple[Sequence[T], str | None]:
    """One page of rows, of which one more than that was asked for, and the cursor of the next, if another follows."""
    more = len(rows) > limit
    return rows[:limit], to_cursor(place(rows[limit - 1])) if more else None
