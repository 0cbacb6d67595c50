"""Pagination by opaque cursors, which stay valid while the list grows."""

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
    """Query parameters that select a page of a list. Unknown parameters are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cursor: str | None = Field(default=None, max_length=500, description="`next` of the previous page")
    limit: int = Field(default=50, ge=1, le=500, description="maximum number of items on the page")


Ordinal = Annotated[int, Field(ge=0, le=LARGEST_ID)]
Text = Annotated[str, Field(max_length=200)]
NUMBER: TypeAdapter[int] = TypeAdapter(Ordinal)
ID: TypeAdapter[tuple[Any, ...]] = TypeAdapter(tuple[Ordinal])
TEXT: TypeAdapter[tuple[Any, ...]] = TypeAdapter(tuple[Text])
SORTED: Mapping[str, TypeAdapter[tuple[Any, ...]]] = {
    "newest": ID,
    "oldest": ID,
    "priority": TypeAdapter(tuple[Priority, Ordinal]),
    "fastest": TypeAdapter(tuple[FiniteFloat, Ordinal]),
    "seen": TypeAdapter(tuple[AwareDatetime, Text]),
    "id": TEXT,
}
"""Validators of list positions, by sort key. A position identifies the last item on a page."""
TRIAL: TypeAdapter[tuple[bool | float | str | None, int, int, int]] = TypeAdapter(
    tuple[StrictBool | FiniteFloat | StrictStr | None, Ordinal, Ordinal, Ordinal]
)
"""Validator of positions in a list of trials: sort value, number, id and group of the last trial."""


def to_cursor(position: object) -> str:
    """Return the cursor for the page after this position."""
    return base64.urlsafe_b64encode(json.dumps(position, default=datetime.isoformat).encode()).decode().rstrip("=")


def parse_cursor(cursor: str | None, shape: TypeAdapter[T]) -> T | None:
    """Return the position that a cursor contains, or None if `cursor` is None.

    Raises:
        InvalidInput: the cursor belongs to a different list, or was changed.
    """
    if cursor is None:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        return shape.validate_json(base64.urlsafe_b64decode(padded.encode()))
    except ValueError as error:
        raise InvalidInput(
            "cursor", "is not a cursor of this list; use `next` of the previous page, unchanged"
        ) from error


def page_of(rows: Sequence[T], limit: int, position: Callable[[T], object]) -> tuple[Sequence[T], str | None]:
    """Return the rows of one page and the cursor of the next page. The cursor is None on the last page.

    `rows` must contain up to `limit` + 1 rows. The additional row shows that there is a next page.
    """
    more = len(rows) > limit
    return rows[:limit], to_cursor(position(rows[limit - 1])) if more else None
