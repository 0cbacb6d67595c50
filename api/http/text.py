"""Refuses values that JSON can express but databases cannot store: lone surrogates, NUL, non-finite numbers."""

import math
from collections.abc import Iterator
from typing import Any, TypeAlias

from evo.errors import InvalidInput
from evo.text.storable import UNSTORABLE

_Path: TypeAlias = "tuple[_Path, str | int] | None"
"""Path of a value, linked from the inside out. The text of a path is built for errors only: one text for each of many
values deep in a document would take far more memory than the document."""


def refuse_unstorable(document: Any, where: str = "") -> None:
    """Check every value and every name in a document.

    Raises:
        InvalidInput: names the place of the first such value.
    """
    waiting: list[tuple[_Path, Any]] = [((None, where) if where else None, document)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, str):
            if UNSTORABLE.search(value):
                raise InvalidInput(_path(place), "holds a NUL or half of a character, which cannot be stored")
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise InvalidInput(_path(place), "must be a finite number")
        elif isinstance(value, dict):
            for name, inner in value.items():
                waiting.append(((place, name), inner))
                waiting.append((place, name))
        elif isinstance(value, list | tuple):
            waiting.extend(((place, number), inner) for number, inner in enumerate(value))


def _path(place: _Path) -> str:
    """Return the path as text, e.g. ``budget.trials``."""
    return ".".join(reversed(list(_parts(place)))) or "body"


def _parts(place: _Path) -> Iterator[str]:
    while place is not None:
        place, part = place
        shown = part if not isinstance(part, str) or not UNSTORABLE.search(part) else ascii(part)
        yield f"{shown!s:.100}"
