"""Converts the tunables of a recording to names and values that a space accepts."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeAlias

from evo.errors import InvalidInput
from evo.space.expression.arithmetic import INTEGER_LIMIT
from evo.space.recording.values import read_object
from evo.space.tunable import identity
from evo.text.document import literal_text
from evo.trial import Value

Identity: TypeAlias = tuple[str, object]
"""A value with its type, as `evo.space.tunable.identity` returns it."""

_NO_NAME = re.compile(r"[^A-Za-z0-9_]")
_NO_TEXT = re.compile(r"[\s,=\x00-\x1f\x7f\ud800-\udfff]+")
_LONGEST_NAME, _LONGEST_TEXT = 64, 100


@dataclass(frozen=True, kw_only=True)
class Column:
    """One tunable.

    Attributes:
        recorded: its name in the file.
        name: its name in a space: letters, digits and underscores.
        spelled: the space's value by `identity` of the file's value: 16.0 becomes 16, ``a b`` becomes ``a_b``, and in a
            list of mixed types all values become texts.
    """

    recorded: str
    name: str
    spelled: Mapping[Identity, Value]

    @property
    def values(self) -> tuple[Value, ...]:
        """Return numbers in ascending order, so that neighbours are alike; other values in order of appearance."""
        values = tuple(self.spelled.values())
        numbers = [value for value in values if isinstance(value, int | float)]
        return tuple(sorted(numbers)) if len(numbers) == len(values) else values

    def read(self, config: Mapping[str, Any], where: str) -> Value:
        value = config.get(self.recorded)
        if not isinstance(value, bool | int | float | str) or identity(value) not in self.spelled:
            listed = ", ".join(repr(known) for _, known in self.spelled)
            raise InvalidInput(
                f"{where}.{self.recorded}", f"{literal_text(value)} is not one of the listed values: {listed:.500}"
            )
        return self.spelled[identity(value)]


def read_columns(lists: Mapping[str, Iterable[Any]], where: str) -> tuple[Column, ...]:
    """Return a column for each list of values, which may contain repetitions.

    Args:
        where: place of the lists in the file.

    Raises:
        InvalidInput: a value is a list, an object or not a finite number, or two different names or texts of the file
            would be equal in a space.
    """
    columns = tuple(
        Column(recorded=recorded, name=_name(recorded), spelled=_spelled(values, f"{where}.{recorded}"))
        for recorded, values in lists.items()
    )
    by_name: dict[str, str] = {}
    for column in columns:
        if (other := by_name.setdefault(column.name, column.recorded)) != column.recorded:
            raise InvalidInput(
                where,
                f"{literal_text(other)} and {literal_text(column.recorded)} would both be {column.name}: rename one",
            )
    return columns


def read_config(recorded: Any, columns: Iterable[Column], where: str) -> dict[str, Value]:
    values = read_object(recorded, where)
    return {column.name: column.read(values, where) for column in columns}


def _name(recorded: str) -> str:
    name = _NO_NAME.sub("_", recorded)
    return (name if name and not name[0].isdigit() else f"_{name}")[:_LONGEST_NAME]


def _spelled(values: Iterable[Any], where: str) -> dict[Identity, Value]:
    once: dict[Identity, Value] = {}
    for value in values:
        check_value(value, where)
        once.setdefault(identity(value), value)
    mixed = len({kind for kind, _ in once}) > 1  # a tunable's values have one type
    spelled = {key: _text(value) if mixed or isinstance(value, str) else value for key, value in once.items()}
    by_text: dict[Value, Value] = {}
    for key, text in spelled.items():
        if (other := by_text.setdefault(text, once[key])) is not once[key]:
            raise InvalidInput(
                where, f"{literal_text(other)} and {literal_text(once[key])} would both be {text}: change one"
            )
    return spelled


def check_value(value: Any, where: str) -> None:
    """Refuse values that a tunable cannot have."""
    if not isinstance(value, bool | int | float | str):
        reason = f"{literal_text(value)} is not a number, a bool or a text: write it as a text, e.g. "
        raise InvalidInput(where, reason + json.dumps(_text(str(value))[:40]))
    if not (abs(value) < INTEGER_LIMIT if isinstance(value, int) else isinstance(value, str) or isfinite(value)):
        raise InvalidInput(
            where,
            f"expected finite numbers, and whole ones below 2**62, got {literal_text(value, 40)}: write it as a text",
        )


def _text(value: Value) -> str:
    return _NO_TEXT.sub("_", str(value))[:_LONGEST_TEXT] or "_"
