"""Suggests how to write TOML values that have the wrong type, as the last part of error messages."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from evo.text.suggestion import number_meant, truth_meant

MAX_SHOWN = 100
"""Maximum number of characters of a wrong value that an error repeats."""
_LARGEST = 1 << 62


def as_text(key: str, value: object) -> str:
    """Return a suggestion to write a number or a bool as a string; empty for other values."""
    return _write(key, json.dumps(_text(value))) if isinstance(value, bool | int | float) else ""


def as_flag(key: str, value: object) -> str:
    """Return a suggestion to write a bool, if a string or number means true or false; otherwise an example."""
    meant = truth_meant(str(value))
    return f", e.g. {_assigned(key, 'true')}" if meant is None else _write(key, _text(meant))


def as_number(key: str, value: object, *, whole: bool) -> str:
    """Return a suggestion to write ``"8"``, ``8.0`` or ``"64K"`` as a number; an example for other values.

    Args:
        whole: True if only whole numbers are accepted.
    """
    given = isinstance(value, str | int | float) and not isinstance(value, bool)
    number = number_meant(str(value)) if given else None
    if number is None or abs(number) >= _LARGEST or (whole and not isinstance(number, int)):
        return f", e.g. {_assigned(key, '1')}"
    return _write(key, str(number))


def as_list(key: str, value: object, *, of_strings: bool = False) -> str:
    """Return a suggestion to write a single value, a range, or a string of values as a list; else an empty string.

    Args:
        of_strings: True if the list must contain strings, so that ``"1, 2"`` does not mean two numbers.
    """
    values = [value] if isinstance(value, int | float) else _values(value, of_strings)
    return _write(key, as_toml(values)) if values else ""


def as_toml(values: Sequence[object]) -> str:
    """Return a list as it is written in TOML."""
    return (
        f"[{', '.join(_text(each) if isinstance(each, bool | int | float) else json.dumps(each) for each in values)}]"
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def numbers_in(values: Sequence[object]) -> list[int | float] | None:
    """Return the numbers of a list that contains strings or nested lists, e.g. 16 and 32 for ``["16", 32]``.

    ``[[16, 32]]`` gives the same numbers. None if the list needs no correction, or if a value is not a number.
    """
    found: list[int | float] = []
    for value in values:
        parts: Sequence[Any] = value if isinstance(value, list | tuple) else [value]
        if isinstance(value, str):
            parts = _values(value, False)
        if not parts or not all(map(_is_number, parts)):
            return None
        found += parts
    return None if found == list(values) or not found else list(dict.fromkeys(found))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST


_RANGE_KEYS = (("min", "from", "low", "start"), ("max", "to", "high", "stop"), ("step",))
_RANGE = re.compile(r"(range\()?\s*(\d{1,9})\s*(?:,|\.{2,}|…|:|-|\bto\b)\s*(\d{1,9})\s*(?:[,:]\s*(\d{1,9})\s*)?(\))?")
_LONGEST_RANGE = 32
"""Maximum number of values of a range that an error lists. Of a longer range, it lists the powers of two."""


def _values(value: object, of_strings: bool) -> list[Any]:
    """Return the list of values that a string, or a table such as ``{min = 1, max = 8}``, probably means.

    The result is empty if the meaning is unclear.
    """
    if isinstance(value, Mapping):
        given = (next((value[name] for name in names if name in value), None) for names in _RANGE_KEYS)
        limits = [number_meant(str(each)) for each in given if each is not None]
        return _numbers(":".join(map(str, limits))) or []
    if not isinstance(value, str) or not 0 < len(value) <= MAX_SHOWN:
        return []
    inner = re.fullmatch(r"\s*[\[({](.*)[\])}]\s*", value)
    text = inner[1] if inner else value
    numbers = None if of_strings else _numbers(text)
    if numbers is not None:
        return numbers
    parts = [part.strip().strip("'\"") for part in split_outside_brackets(text)]
    return parts if all(parts) and (inner or len(parts) > 1) else [value]


def split_outside_brackets(text: str) -> list[str]:
    """Split a string at its commas, except at commas in brackets."""
    depth, parts = 0, [""]
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _numbers(text: str) -> list[int | float] | None:
    """Return the numbers that a string such as ``1, 2``, ``1..8`` or ``range(1, 9)`` denotes; None for others."""
    found = _RANGE.fullmatch(text.strip())
    if found is None or (bool(found[1]) != bool(found[5])) or ("," in text and not found[1]):
        parts = re.split(r"[\s,;|]+", text.strip())
        numbers = [
            number_meant(each) if re.fullmatch(r"-?(?!0\d)[\d.]+(?:e\d{1,2})?", each) else None for each in parts
        ]
        return None if None in numbers else [each for each in numbers if each is not None]
    low, high, step = int(found[2]), int(found[3]), int(found[4] or 1)
    values = range(low, high + (not found[1]), max(step, 1))
    if len(values) > _LONGEST_RANGE:
        return [1 << power for power in range(31) if low <= 1 << power <= high] or None
    return list(values) or None


def _write(key: str, value: str) -> str:
    return f"; write {_assigned(key, value)}"


def _assigned(key: str, value: str) -> str:
    """Return the line to write in the document or, in a list, only the value."""
    return value if "[" in key else f"{key} = {value}"
