"""Numbers from outside that are refused, in the same words on the command line and in REST."""

from collections.abc import Mapping
from typing import Any

MOST = 10**9
"""Of trials, minutes or money: more than any search takes, and few enough to count with."""

LARGEST = 2**63 - 1
"""The largest whole number that every database holds."""

_NOT_WHOLE = {"int_parsing", "int_parsing_size", "int_from_float", "int_type"}
_NO_NUMBER = {"float_parsing", "float_type", "finite_number"}
_BOUNDS = {"gt": "above {}", "ge": "{} and more", "lt": "below {}", "le": "{} and less"}
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
    """Why a number is refused and what would be taken, or None where something else is wrong.

    Args:
        error: as pydantic tells of it.
        limits: as of `accepted`; by default the one that was missed.
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
        return None
    limits = limits or missed
    return f"{reason}; accepted: {limits}" if limits else reason
