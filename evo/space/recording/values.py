"""Check the values of a recording's file one by one; errors name the place in the file."""

import sys
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

from evo.errors import InvalidInput
from evo.text.document import literal_text
from evo.text.limits import LONGEST_US, SHORTEST_US
from evo.trial.outcome import Measured
from evo.trial.timing import Timing

FAILED_MS = 1e20
"""Time of failed configs in old cache files."""

MICROSECONDS_PER = {
    "ns": 1e-3,
    "nanoseconds": 1e-3,
    "us": 1.0,
    "µs": 1.0,
    "microseconds": 1.0,
    "ms": 1e3,
    "miliseconds": 1e3,  # spelling in published files
    "milliseconds": 1e3,
    "s": 1e6,
    "seconds": 1e6,
}


def read_object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(where, f"expected an object, got {literal_text(value, 40)}")
    return value


def read_list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidInput(where, f"expected a list, got {literal_text(value, 40)}")
    return value


def is_no_time(value: Any) -> bool:
    """True if the number is one that tools write for failed configs."""
    return isinstance(value, int | float) and (not _is_finite(value) or value == FAILED_MS)


def read_time(value: Any, factor: float, field: str) -> Measured:
    """Return one time, or several of the same config."""
    samples = value if isinstance(value, list) and value else [value]
    times_us = tuple(_finite(each, field) * factor for each in samples)
    for time_us in times_us:
        if not SHORTEST_US <= time_us <= LONGEST_US:
            raise InvalidInput(
                field, f"expected a time from {SHORTEST_US:g} to {LONGEST_US:g} µs, got {literal_text(value)}"
            )
    return Measured(timing=Timing(samples_us=times_us))


def read_seconds(times: Mapping[str, Any], names: Iterable[str], per_second: float, where: str) -> float:
    """Return the first of these times that exists; missing or invalid numbers count as no time."""
    for name in names:
        if times.get(name) is not None:
            recorded = times[name]
            parts = recorded if isinstance(recorded, list) else [recorded]
            known = [part for part in parts if not (isinstance(part, float) and not _is_finite(part))]
            seconds = sum(_finite(part, f"{where}.{name}") for part in known) / per_second
            if seconds < 0:
                raise InvalidInput(f"{where}.{name}", f"expected a time from 0 on, got {literal_text(recorded)}")
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
        raise InvalidInput(field, f"expected a number, got {literal_text(value, 40)}")
    return float(value)


def _is_finite(value: float) -> bool:
    """True for a finite number; integers beyond the range of floats count as infinite."""
    return abs(value) <= sys.float_info.max


def other_figure(objective: str, figure: object) -> str:
    """Explain how to convert a recording of another quantity than time.

    Args:
        figure: the first entry's value of this name; if it is not a number, the example is general.
    """
    number = figure if isinstance(figure, int | float) and not isinstance(figure, bool) and isfinite(figure) else None
    example = (
        "" if number is None or number >= 1 else f', here {1 - number:g} for {number:g}, which is 1 - "{objective}"'
    )
    return (
        "a search looks for the shortest time, and for no other figure. Give each entry a time in milliseconds that "
        f'falls as "{objective}" gets better{example}'
    )
