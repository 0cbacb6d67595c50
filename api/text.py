"""What JSON can say and no database can keep: half characters, NUL, and numbers that are none."""

import math
import re
from typing import Any

from evo.errors import InvalidInput

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def refuse_unstorable(document: Any, where: str = "") -> None:
    """Look through a whole document, however deep.

    Raises:
        InvalidInput: names the place of the first such value.
    """
    waiting: list[tuple[str, Any]] = [(where, document)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, str):
            if _UNSTORABLE.search(value):
                raise InvalidInput(place or "body", "holds a NUL or half of a character, which cannot be stored")
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise InvalidInput(place or "body", "must be a finite number")
        elif isinstance(value, dict):
            for name, inner in value.items():
                shown = name if isinstance(name, str) and not _UNSTORABLE.search(name) else ascii(name)
                waiting.append((f"{place}.{shown:.100}" if place else f"{shown:.100}", inner))
                waiting.append((place, name))
        elif isinstance(value, list | tuple):
            waiting.extend((f"{place}.{number}" if place else str(number), inner) for number, inner in enumerate(value))
