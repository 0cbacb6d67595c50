"""The tunables of a recording: columns of its configs, under names and with values that a space can hold."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from evo.errors import InvalidInput
from evo.expression.arithmetic import INTEGER_LIMIT
from evo.recording.values import read_object
from evo.space.tunable import identity
from evo.trial import Value

_NO_NAME = re.compile(r"[^A-Za-z0-9_]")
_NO_TEXT = re.compile(r"[\s,=\x00-\x1f\x7f\ud800-\udfff]+")
_LONGEST_NAME, _LONGEST_TEXT = 64, 100


@dataclass(frozen=True, kw_only=True)
class Column:
    """One tunable.

    Attributes:
        recorded: what the file calls it.
        name: what a space calls it: letters, digits and underscores.
        spelled: the space's value by whatever equals the file's: 16.0 is declared as 16, ``a b`` stands as ``a_b``.
    """

    recorded: str
    name: str
    spelled: Mapping[Value, Value]

    @property
    def values(self) -> tuple[Value, ...]:
        """Numbers in ascending order, so that neighbours are alike; others as they come."""
        values = tuple(self.spelled.values())
        numbers = [value for value in values if isinstance(value, int | float)]
        return tuple(sorted(numbers)) if len(numbers) == len(values) else values

    def read(self, config: Mapping[str, Any], where: str) -> Value:
        value = config.get(self.recorded)
        if not isinstance(value, bool | int | float | str) or value not in self.spelled:
            raise InvalidInput(f"{where}.{self.recorded}", f"{value!r} is none of {list(self.spelled)}")
        return self.spelled[value]


def read_columns(lists: Mapping[str, Iterable[Any]], where: str) -> tuple[Column, ...]:
    """A column for each list of values, in which any may be repeated.

    Args:
        where: the lists' place in the file.

    Raises:
        InvalidInput: a value is a list, an object or no number to count with, or what differs in the file is the same
            in a space.
    """
    columns = tuple(
        Column(recorded=recorded, name=_name(recorded), spelled=_spelled(values, f"{where}.{recorded}"))
        for recorded, values in lists.items()
    )
    by_name: dict[str, str] = {}
    for column in columns:
        if (other := by_name.setdefault(column.name, column.recorded)) != column.recorded:
            raise InvalidInput(where, f"{other!r} and {column.recorded!r} would both be {column.name}: rename one")
    return columns


def read_config(recorded: Any, columns: Iterable[Column], where: str) -> dict[str, Value]:
    values = read_object(recorded, where)
    return {column.name: column.read(values, where) for column in columns}


def _name(recorded: str) -> str:
    name = _NO_NAME.sub("_", recorded)
    return (name if name and not name[0].isdigit() else f"_{name}")[:_LONGEST_NAME]


def _spelled(values: Iterable[Any], where: str) -> dict[Value, Value]:
    once: dict[Value, Value] = {}
    for value in values:
        _check(value, where)
        if identity(first := once.setdefault(value, value)) != identity(value):
            raise InvalidInput(where, f"{first!r} and {value!r} are the same to a space: change one")
    mixed = len({identity(value)[0] for value in once}) > 1  # of which a tunable has one alone
    spelled = {value: _text(value) if mixed or isinstance(value, str) else value for value in once}
    by_text: dict[Value, Value] = {}
    for value, stands_for_it in spelled.items():
        if (other := by_text.setdefault(stands_for_it, value)) is not value:
            raise InvalidInput(where, f"{other!r} and {value!r} would both be {stands_for_it}: change one")
    return spelled


def _check(value: Any, where: str) -> None:
    if not isinstance(value, bool | int | float | str):
        raise InvalidInput(where, f"{value!r} is no single value")
    if not (abs(value) < INTEGER_LIMIT if isinstance(value, int) else isinstance(value, str) or isfinite(value)):
        raise InvalidInput(where, f"expected finite numbers, and whole ones below 2**62, got {value!r:.40}")


def _text(value: Value) -> str:
    return _NO_TEXT.sub("_", str(value))[:_LONGEST_TEXT] or "_"
