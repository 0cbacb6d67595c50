"""Parses the query parameters that select trials, for REST, downloads and the leaderboard page."""

import math
import re
from collections.abc import Sequence
from typing import cast

from sqlalchemy.orm import Session

from api.families import Catalogue
from db.queries.leaderboard import PagePosition
from db.queries.selection import KEYS, Condition, Operator, Order, Selection
from db.repositories.archive import Archive
from evo.device.estimate.target import aimed_at
from evo.errors import InvalidInput
from evo.space import Tunable
from evo.text.suggestion import unknown
from evo.text.wording import value_text
from evo.trial import Value

FORM = re.compile(r"\s*(\w+)\s*(!=|<=|>=|==|=|<|>)\s*(\S.*?)\s*")
"""Matches one condition, e.g. ``BLOCK_M>=32``."""


def tunables_of(session: Session, catalogue: Catalogue, search_id: int) -> tuple[Tunable, ...]:
    """Return the tunables of the configs of a search."""
    row = Archive(session).search(search_id)
    kind = aimed_at(row.device, row.objective).kind
    return tuple(catalogue.family(row.family).implementation(kind).tunables)


def selection_of(
    searches: Sequence[int],
    tunables: Sequence[Tunable],
    *,
    sort: str = "number",
    outcomes: Sequence[str] = (),
    where: str = "",
    text: str = "",
) -> Selection:
    """Return the selection of trials that the query parameters describe.

    Args:
        sort: a key of `db.queries.selection.KEYS`, or the name of a tunable. A leading ``-`` reverses the order.
        where: conditions on tunables, separated by commas, e.g. ``WIDTH=8,BLOCK_M>=32,LAYOUT=row|swizzled,STAGES!=1``.

    Raises:
        InvalidInput: ``sort`` or ``where`` is invalid.
    """
    known = {tunable.name: tunable for tunable in tunables}
    conditions = tuple(_condition(piece, known) for piece in where.split(",") if piece.strip())
    order = _order(sort, known)
    return Selection(
        searches=tuple(searches), outcomes=tuple(outcomes), conditions=conditions, text=text.strip(), order=order
    )


def fitting(order: Order, cursor: tuple[Value | None, int, int, int] | None) -> PagePosition | None:
    """Return the position in a cursor, or None if the cursor is None.

    Raises:
        InvalidInput: the cursor comes from a list with a different order, because the type of its sort value is not
            the type of this order's sort values.
    """
    if cursor is None:
        return None
    key, number, trial_id, group = cursor
    sample: Value = "" if order.key in ("outcome", "origin") else 0.0
    sample = sample if order.sample is None else order.sample
    kind = next(kind for kind in (bool, str, (int, float)) if isinstance(sample, kind))
    if key is not None and (not isinstance(key, kind) or isinstance(key, bool) is not isinstance(sample, bool)):
        raise InvalidInput(
            "cursor", "belongs to a list with a different order; use `next` of the previous page, unchanged"
        )
    return PagePosition(key=key, number=number, id=trial_id, group=group)


def _order(sort: str, known: dict[str, Tunable]) -> Order:
    key, descending = sort.removeprefix("-"), sort.startswith("-")
    if key in KEYS:
        return Order(key=key, descending=descending)
    if key not in known:
        raise InvalidInput("sort", unknown(key, [*KEYS, *known], "sort keys"))
    return Order(key=key, descending=descending, values=tuple(known[key].values))


def _condition(piece: str, known: dict[str, Tunable]) -> Condition:
    match = FORM.fullmatch(piece)
    if match is None:
        raise InvalidInput("where", f"`{piece.strip()}` is not of the form NAME=VALUE; write e.g. `{_example(known)}`")
    name, operator, value = match.groups()
    if name not in known:
        raise InvalidInput("where", unknown(name, known, "tunables"))
    tunable, sign = known[name], cast(Operator, "=" if operator == "==" else operator)
    if sign in ("=", "!="):
        values = tuple(_value(tunable, text) for text in value.split("|"))
        return Condition(tunable=name, operator=sign, values=values)
    return Condition(tunable=name, operator=sign, values=(_number(tunable, value),))


def _example(known: dict[str, Tunable]) -> str:
    for name, tunable in known.items():
        if not isinstance(value := tunable.values[len(tunable.values) // 4], bool | str):
            return f"{name}>={value_text(value)}"
    return next((f"{name}={value_text(tunable.values[0])}" for name, tunable in known.items()), "NAME=VALUE")


def _value(tunable: Tunable, text: str) -> Value:
    try:
        return tunable.values[tunable.parse(text, "where")]
    except InvalidInput as error:
        raise InvalidInput("where", f"{tunable.name}: {error.reason}") from error


def _number(tunable: Tunable, text: str) -> Value:
    if isinstance(tunable.values[0], bool | str):
        raise InvalidInput(
            "where", f"the values of {tunable.name} are not numbers; use = or !=, and one of {tunable.listed}"
        )
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidInput("where", f"{text!r} is not a finite number; {tunable.name} is one of {tunable.listed}")
    return number
