"""Values from outside that are refused, in the same words on the command line and in REST."""

from collections.abc import Mapping
from typing import Any

from evo.errors import InvalidInput

MOST = 10**9
"""Of trials, minutes or money: more than any search takes, and few enough to count with."""

LARGEST = 2**63 - 1
"""The largest whole number that every database holds."""

LARGEST_ID = 2**31 - 1
"""The largest id, or number of a trial, that every database counts to."""

SHORTEST_US, LONGEST_US = 1e-6, 1e12
"""Of a kernel's time: a picosecond, and eleven days. Whatever is drawn or summed up keeps to this."""

LONGEST_S = 1e9
"""Of a stage, or of a limit on one: thirty years."""

LARGEST_FIGURE = 1e18
"""Of anything else that a device has or counts, in base units: operations a second, bytes, …"""

_NOT_WHOLE = {"int_parsing", "int_parsing_size", "int_from_float", "int_type"}
_NO_NUMBER = {"float_parsing", "float_type", "finite_number"}
_BOUNDS = {"gt": "above {}", "ge": "{} and more", "lt": "below {}", "le": "{} and less"}
_OTHERWISE = {
    "missing": "is missing",
    "literal_error": "{shown!r} is none of {expected}",
    "bool_parsing": "{shown!r} is neither true nor false",
    "string_pattern_mismatch": "is not of the form {pattern}",
    "string_too_short": "has {length} characters, which are too few: give {min_length:,} or more",
    "string_too_long": "has more than {max_length:,} characters",
    "too_long": "has more than {max_length:,} entries",
}
_EMPTY = {"string_too_short": "is empty"}
_SHOWN = 40


def accepted(least: float | None, most: float | None) -> str:
    """``1 … 1,000,000,000``; what only the database limits has no end for people."""
    if most is None or most >= LARGEST:
        return "" if least is None else f"{figure(least)} and more"
    return f"{figure(most)} and less" if least is None else f"{figure(least)} … {figure(most)}"


def figure(value: float) -> str:
    """A limit as people read it."""
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


def refused(error: Mapping[str, Any], limits: str = "") -> str | None:
    """Why a number, a word or the length of a text is refused and what would be taken; None where it is another thing.

    Args:
        error: as pydantic tells of it.
        limits: of a number, as of `accepted`; by default the one that was missed.
    """
    given = str(error["input"]) if isinstance(error["input"], str | int | float) else type(error["input"]).__name__
    shown = given if len(given) <= _SHOWN else f"{given[:_SHOWN]}…"
    bounds = error.get("ctx", {})
    missed = "".join(text.format(figure(bounds[name])) for name, text in _BOUNDS.items() if name in bounds)
    if error["type"] in _NOT_WHOLE:
        reason = f"{shown!r} is not a whole number"
    elif error["type"] in _NO_NUMBER:
        reason = f"{shown!r} is not a number"
    elif missed:
        reason = f"{shown} is out of its limits"
    else:
        told = None if given else _EMPTY.get(error["type"])
        told = told or _OTHERWISE.get(error["type"])
        return None if told is None else told.format(shown=shown, length=len(given), **bounds)
    limits = limits or missed
    return f"{reason}; accepted: {limits}" if limits else reason


def refuse_unaddressable(field: str, text: str) -> str:
    """Return a name that can be one part of a web address.

    Raises:
        InvalidInput: it cannot: it has a slash, names a folder, or cannot be printed.
    """
    if text in ("", ".", "..") or "/" in text or "\\" in text or not text.isprintable():
        raise InvalidInput(field, f"{text!r:.100} cannot be part of an address: use letters, digits, `-`, `_` and `.`")
    return text
