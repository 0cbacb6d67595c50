"""Limits of values from users and clients. The command line and REST report violations with the same messages."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from evo.errors import InvalidInput
from evo.text.document import literal_text
from evo.text.suggestion import closest, numbers_meant, truth_meant
from evo.text.visible import one_line

MOST = 10**9
"""Upper limit of numbers that users choose freely, e.g. trials, minutes, cost and weights of calls.

It is more than any search uses, and safe for arithmetic.
"""

LARGEST = 2**63 - 1
"""The largest whole number that every supported database can store."""

LARGEST_ID = 2**31 - 1
"""The largest id or trial number that every supported database can store."""

SHORTEST_US, LONGEST_US = 1e-6, 1e12
"""Minimum and maximum time of a kernel: a picosecond and eleven days. Charts and sums rely on these limits."""

LONGEST_S = 1e9
"""Upper limit of a stage's time and of time limits: thirty years."""

LARGEST_FIGURE = 1e18
"""Upper limit of all other numbers about a device, in base units: operations per second, bytes, …"""

NOT_WHOLE = {"int_parsing", "int_parsing_size", "int_from_float", "int_type"}
NO_FIELD = "is not a known field; check its spelling, or omit it"
"""Error text for an unknown field."""
_OF_TEXTS = {"int_type", "float_type", "bool_type"}
"""Pydantic errors of strict types, which refuse strings such as ``"5"`` in JSON."""
_NO_NUMBER = {"float_parsing", "float_type"}
_BOUNDS = {"gt": "above {}", "ge": "{} and more", "lt": "below {}", "le": "{} and less"}
_OTHERWISE = {
    "missing": "is missing",
    "literal_error": "{quoted} is not one of {expected}",
    "bool_parsing": "{quoted} is neither true nor false",
    "string_pattern_mismatch": "is not of the form {pattern}",
    "string_too_short": "has {length} characters, which are too few; use {min_length:,} or more",
    "string_too_long": "has more than {max_length:,} characters",
    "too_short": "has too few entries; use {min_length:,} or more",
    "too_long": "has more than {max_length:,} entries",
    "bool_type": "must be true or false",
    "string_type": "must be a string, in quotes",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    **dict.fromkeys(
        ("dict_type", "model_type", "model_attributes_type", "dataclass_type", "dataclass_exact_type"),
        "must be an object: fields and values in braces",
    ),
    **dict.fromkeys(("extra_forbidden", "unexpected_keyword_argument"), NO_FIELD),
}
_EMPTY = {"string_too_short": "is empty"}
_SHOWN = 40


def accepted(least: float | None, most: float | None) -> str:
    """Return the accepted range as text, e.g. ``1 … 1,000,000,000``; empty if there is no limit.

    An upper limit of `LARGEST` or more is omitted, because it only follows from the database's types.

    Args:
        least, most: lower and upper limit; None for no limit.
    """
    if most is None or most >= LARGEST:
        return "" if least is None else f"{figure(least)} and more"
    return f"{figure(most)} and less" if least is None else f"{figure(least)} … {figure(most)}"


def figure(value: float) -> str:
    """Return a limit as text, e.g. ``1,000`` or ``0.5``."""
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


def refused(error: Mapping[str, Any], limits: str = "") -> str | None:
    """Describe why Pydantic refused a value, and what is accepted; None for kinds of errors without a description.

    Args:
        error: a Pydantic error.
        limits: description of the accepted values, e.g. from `accepted`. If empty, the message states the limit that
            the value violates, if there is one.
    """
    value = error["input"]
    given = value if isinstance(value, str) else literal_text(value, _SHOWN + 1)
    shown = given if len(given) <= _SHOWN else f"{given[:_SHOWN]}…"
    quoted = repr(shown) if isinstance(value, str) else shown
    bounds = error.get("ctx", {})
    missed = "".join(text.format(figure(bounds[name])) for name, text in _BOUNDS.items() if name in bounds)
    if error["type"] in _OF_TEXTS and isinstance(value, str) and _is_literal(value):
        reason = f"{quoted} is a string; leave the quotes out"
    elif missed or error["type"] == "int_parsing_size":
        reason = f"{shown} is out of range"
    elif error["type"] == "finite_number":
        reason = f"{quoted} is not a finite number"
    elif error["type"] in NOT_WHOLE:
        reason = f"{quoted} is not a whole number"
    elif error["type"] in _NO_NUMBER:
        reason = f"{quoted} is not a number"
    else:
        text = None if given else _EMPTY.get(error["type"])
        text = text or _OTHERWISE.get(error["type"])
        if text is None:
            return None
        choices = re.findall(r"'([^']*)'", str(bounds.get("expected", "")))
        word = closest(str(value), choices) if choices else None
        written = "" if word is None else f"; write {json.dumps(word)}"
        return text.format(quoted=quoted, length=len(given), **bounds) + (written or _converted(error["type"], value))
    if limits:
        return f"{reason}; accepted: {limits}"
    if missed:
        return f"{reason}; accepted: {missed}, e.g. {_within(bounds)}"
    readable = isinstance(value, str) and error["type"] != "int_parsing_size"
    numbers = numbers_meant(value, units(error["loc"])) if readable else []
    meant = [str(each) for each in numbers if isinstance(each, int) or error["type"] not in NOT_WHOLE]
    if meant and value.strip() not in meant:
        return f"{reason}; write {' or '.join(meant)}"
    return f"{reason}, e.g. 1" if reason.endswith("number") else reason


def _converted(kind: str, value: object) -> str:
    """Return the last part of an error about a value's type: how to write the value; empty if its meaning is unclear.

    A list of one value is taken to mean this value, and a single value to mean a list of this value.
    """
    scalar = isinstance(value, str | int | float) and not isinstance(value, bool)
    if kind in ("list_type", "tuple_type") and value is not None and (scalar or isinstance(value, Mapping)):
        return f"; write {json.dumps([value], ensure_ascii=False)}" if len(str(value)) <= _SHOWN else ""
    if kind == "bool_type":
        truth = truth_meant(str(value))
        return ", e.g. true" if truth is None else f"; write {json.dumps(truth)}"
    if kind not in ("string_type", "dict_type", "model_type", "model_attributes_type"):
        return ""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    wanted = isinstance(value, Mapping) if kind != "string_type" else isinstance(value, str) or scalar
    if not wanted or len(str(value)) > _SHOWN:
        return "; omit it, or write a string" if value is None and kind == "string_type" else ""
    return f"; write {json.dumps(value if isinstance(value, Mapping) else str(value), ensure_ascii=False)}"


def _within(bounds: Mapping[str, Any]) -> str:
    """Return an example of a number that meets the bounds."""
    beyond = next(bounds[name] + step for name, step in (("ge", 0), ("le", 0), ("gt", 1), ("lt", -1)) if name in bounds)
    return str(int(beyond) if beyond == int(beyond) else beyond)


_SECONDS: Mapping[str, int] = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86400),
}
_IN_SECONDS = {"minutes": 60, "hours": 3600, "days": 86400, "grace": 1, "grace_s": 1, "expires_in_s": 1}
_GB = {"": 1, "g": 1, "gb": 1, "gib": 1.073741824, "mb": 1e-3, "tb": 1e3}
_DECIMAL = {"": 1, "k": 1e3, "m": 1e6, "usd": 1, "eur": 1}


def units(location: Sequence[int | str]) -> Mapping[str, float]:
    """Return the factors, by suffix, of the units that users may write after a number, e.g. ``5m`` for five minutes.

    A number times the factor of its suffix is the value in the unit of the field or option.

    Args:
        location: path of the field or option. The last part of the path determines the units.
    """
    name = str(location[-1]) if location else ""
    if (own := _IN_SECONDS.get(name)) is not None:
        return {"": 1, **{unit: seconds / own for unit, seconds in _SECONDS.items()}}
    return _GB if name in ("device_memory", "memory_gb") else _DECIMAL


def _is_literal(text: str) -> bool:
    """Return True if a string is a number or a bool in JSON, e.g. ``5`` or ``true``."""
    try:
        return isinstance(json.loads(text), int | float)
    except ValueError:
        return False


def refuse_unaddressable(field: str, text: str) -> str:
    """Return a name after checking that it can be one part of a URL path.

    Raises:
        InvalidInput: the text is empty, ``.`` or ``..``, or contains a slash, a backslash or unprintable characters.
    """
    if text in ("", ".", "..") or "/" in text or "\\" in text or not text.isprintable():
        raise InvalidInput(field, f"{text!r:.100} cannot be part of an address; use letters, digits, `-`, `_` and `.`")
    return text


def refuse_invisible(field: str, text: str) -> str:
    """Return a name after checking that a list, a log or a terminal can show it on one line.

    Raises:
        InvalidInput: the name has a line break, a tab, a control character or a character that changes the writing
            direction.
    """
    if (shown := one_line(text)) != text:
        raise InvalidInput(field, f"has a line break or another invisible character: {shown:.100}; remove it")
    return text


_FOREIGN = re.compile(r"(?P<scheme>sqlite|mysql|mariadb|oracle|mssql|file)(\+\w+)?:/.*|sqlite:")


def refuse_foreign_url(text: str, field: str) -> None:
    """Refuse the URL of a database other than PostgreSQL, because it would otherwise be read as a file path.

    Args:
        text: the URL as given, or converted to a path, where double slashes became single.

    Raises:
        InvalidInput: the text is the URL of another database. The message states what to give instead.
    """
    if (found := _FOREIGN.fullmatch(text)) is None:
        return
    if found["scheme"] in (None, "sqlite", "file"):
        raise InvalidInput(field, "is a URL; use the path of the SQLite file, e.g. evo.db")
    raise InvalidInput(field, "must be the path of an SQLite file or postgresql://USER@HOST:5432/NAME")


UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
"""Matches a character that JSON can express but databases cannot store."""

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
T = TypeVar("T")


def storable(value: T) -> T:
    """Replace characters that databases cannot store, such as NUL in compiler output, with U+FFFD.

    Args:
        value: a string, or dataclasses, mappings and tuples that contain strings and other values. Strings in other
            containers, such as lists, are not changed.

    Returns:
        The value itself if it contains no such character, else a copy in which the characters are replaced.
    """
    found: Any = _storable(value)
    return found  # type: ignore[no-any-return]


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return UNSTORABLE.sub(_REPLACEMENT, value)
    if is_dataclass(value) and not isinstance(value, type):
        values = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
        cleaned = {name: _storable(each) for name, each in values.items()}
        changed = {name: each for name, each in cleaned.items() if each is not values[name]}
        return replace(value, **changed) if changed else value
    if isinstance(value, Mapping):
        found = {_storable(name): _storable(each) for name, each in value.items()}
        unchanged = all(name in value and each is value[name] for name, each in found.items())
        return value if unchanged and len(found) == len(value) else found
    if isinstance(value, tuple) and any(not isinstance(each, int | float) for each in value):
        cleaned_tuple = tuple(_storable(each) for each in value)
        unchanged = all(one is other for one, other in zip(cleaned_tuple, value, strict=True))
        return value if unchanged else cleaned_tuple
    return value
