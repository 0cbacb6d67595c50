"""Tunables of a recording: converts their names and values to names and values that a space accepts."""

import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeAlias

from evo.errors import InvalidInput
from evo.space.expression.arithmetic import INTEGER_LIMIT
from evo.space.tunable import identity
from evo.text.document import literal_text
from evo.text.limits import LONGEST_US, SHORTEST_US
from evo.trial import Value
from evo.trial.outcome import Measured
from evo.trial.timing import Timing

Identity: TypeAlias = tuple[str, object]
"""A value with its type, as `evo.space.tunable.identity` returns it."""

_NO_NAME = re.compile(r"[^A-Za-z0-9_]")
_NO_TEXT = re.compile(r"[\s,=\x00-\x1f\x7f\ud800-\udfff]+")
_LONGEST_NAME, _LONGEST_TEXT = 64, 100


@dataclass(frozen=True, kw_only=True)
class Column:
    """A tunable of a recording.

    Attributes:
        recorded: the tunable's name in the file.
        name: the tunable's name in a space; it consists of letters, digits and underscores.
        spelled: value in the space, by the `identity` of the value in the file. Invalid characters are replaced
            (``a b`` becomes ``a_b``), and values of mixed types all become strings.
    """

    recorded: str
    name: str
    spelled: Mapping[Identity, Value]

    @property
    def values(self) -> tuple[Value, ...]:
        """The values in the space. Numbers are in ascending order; other values are in the order of the file."""
        values = tuple(self.spelled.values())
        numbers = [value for value in values if isinstance(value, int | float)]
        return tuple(sorted(numbers)) if len(numbers) == len(values) else values

    def read(self, config: Mapping[str, Any], where: str) -> Value:
        if self.recorded not in config:
            raise InvalidInput(f"{where}.{self.recorded}", "is missing, but other configs have it: add its value")
        value = config[self.recorded]
        if not isinstance(value, bool | int | float | str) or identity(value) not in self.spelled:
            listed = ", ".join(repr(known) for _, known in self.spelled)
            raise InvalidInput(
                f"{where}.{self.recorded}", f"{literal_text(value)} is not one of the listed values: {listed:.500}"
            )
        return self.spelled[identity(value)]


def read_columns(lists: Mapping[str, Iterable[Any]], where: str) -> tuple[Column, ...]:
    """Return a column for each tunable of a recording. The lists of values may contain duplicates.

    Args:
        lists: values of each tunable, by the tunable's name in the file.
        where: key of the lists in the file, as shown in error messages.

    Raises:
        InvalidInput: a value is not a string, a bool, a finite float or an integer with a magnitude below 2**62; or two
            different names or values of the file would be equal in a space.
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
                f"{literal_text(other)} and {literal_text(column.recorded)} would both get the name {column.name}; "
                "rename one of them",
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
    mixed = len({kind for kind, _ in once}) > 1  # values of a tunable must have one type
    spelled = {key: _text(value) if mixed or isinstance(value, str) else value for key, value in once.items()}
    by_text: dict[Value, Value] = {}
    for key, text in spelled.items():
        if (other := by_text.setdefault(text, once[key])) is not once[key]:
            raise InvalidInput(
                where, f"{literal_text(other)} and {literal_text(once[key])} would both be written {text}; change one"
            )
    return spelled


def check_value(value: Any, where: str) -> None:
    """Raise `InvalidInput` for a value that a tunable cannot have. `where` is its position in the file."""
    if not isinstance(value, bool | int | float | str):
        reason = f"{literal_text(value)} is not a number, a bool or a string; write it as a string, e.g. "
        raise InvalidInput(where, reason + json.dumps(_text(str(value))[:40]))
    if not (abs(value) < INTEGER_LIMIT if isinstance(value, int) else isinstance(value, str) or isfinite(value)):
        raise InvalidInput(
            where,
            f"expected a finite number (integers must be between -2**62 and 2**62), got {literal_text(value, 40)}; "
            "write it as a string",
        )


def _text(value: Value) -> str:
    return _NO_TEXT.sub("_", str(value))[:_LONGEST_TEXT] or "_"


FAILED_MS = 1e20
"""Time in ms that old cache files contain for failed configs."""

MICROSECONDS_PER = {
    "ns": 1e-3,
    "nanoseconds": 1e-3,
    "us": 1.0,
    "µs": 1.0,
    "microseconds": 1.0,
    "ms": 1e3,
    "miliseconds": 1e3,  # misspelled in published files
    "milliseconds": 1e3,
    "s": 1e6,
    "seconds": 1e6,
}


def read_object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(where, f"must be an object of names and values in braces, not {literal_text(value, 40)}")
    return value


def read_list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidInput(where, f"expected a list, got {literal_text(value, 40)}")
    return value


def is_no_time(value: Any) -> bool:
    """Return True if tuners write this number instead of a time for a failed config, e.g. infinity."""
    return isinstance(value, int | float) and (not _is_finite(value) or value == FAILED_MS)


def read_time(value: Any, factor: float, field: str) -> Measured:
    """Return a measured outcome with one or several recorded times.

    Args:
        value: the time, or a list of times.
        factor: microseconds per unit of `value`.
        field: position in the file, as shown in error messages.

    Raises:
        InvalidInput: a time is not a number, or is too short or too long for a kernel.
    """
    samples = value if isinstance(value, list) and value else [value]
    times_us = tuple(_finite(each, field) * factor for each in samples)
    for time_us in times_us:
        if not SHORTEST_US <= time_us <= LONGEST_US:
            raise InvalidInput(
                field, f"expected a time from {SHORTEST_US:g} to {LONGEST_US:g} µs, got {literal_text(value)}"
            )
    return Measured(timing=Timing(samples_us=times_us))


def read_seconds(times: Mapping[str, Any], names: Iterable[str], per_second: float, where: str) -> float:
    """Return the recorded time of a stage in seconds; 0.0 if it was not recorded.

    Args:
        times: recorded times by name. A list of times is summed; infinity and NaN are ignored.
        names: possible names of the time. The first name with a value is used.
        per_second: number of units of `times` per second.
        where: position of `times` in the file, as shown in error messages.

    Raises:
        InvalidInput: the recorded time is not a number, or is negative.
    """
    for name in names:
        if times.get(name) is not None:
            recorded = times[name]
            parts = recorded if isinstance(recorded, list) else [recorded]
            known = [part for part in parts if not (isinstance(part, float) and not _is_finite(part))]
            seconds = sum(_finite(part, f"{where}.{name}") for part in known) / per_second
            if seconds < 0:
                raise InvalidInput(f"{where}.{name}", f"expected a time of at least 0, got {literal_text(recorded)}")
            return seconds
    return 0.0


def unit_us(unit: Any, field: str) -> float:
    try:
        return MICROSECONDS_PER[str(unit).lower()]
    except KeyError:
        raise InvalidInput(
            field, f"{literal_text(unit)} is not a unit of time; known: {', '.join(MICROSECONDS_PER)}"
        ) from None


def _finite(value: Any, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
        raise InvalidInput(field, f"expected a finite number, got {literal_text(value, 40)}")
    return float(value)


def _is_finite(value: float) -> bool:
    """Return True if a number is finite. Integers beyond the range of floats count as infinite."""
    return abs(value) <= sys.float_info.max


def advice_to_convert(objective: str, value: object) -> str:
    """Return advice on how to convert a recording of a quantity other than time.

    Args:
        objective: name of the quantity.
        value: a recorded value of the quantity. If it is a number below 1, the advice contains it as an example.
    """
    number = value if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) else None
    example = (
        "" if number is None or number >= 1 else f', e.g. {1 - number:g} for {number:g}, which is 1 - "{objective}"'
    )
    return (
        "a search on a recording minimises the time and no other quantity. Give each entry a time in milliseconds that "
        f'decreases as "{objective}" improves{example}'
    )
