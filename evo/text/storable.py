"""Texts that databases can store: without NUL and without halves of surrogate pairs."""

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
"""Matches a character that JSON can express but databases cannot store."""

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
T = TypeVar("T")


def storable(value: T) -> T:
    """Return a message with U+FFFD in place of each such character; compilers and kernels write any bytes.

    Args:
        value: a text, or dataclasses, mappings and tuples of texts and other values.
    """
    found: Any = _storable(value)
    return found  # type: ignore[no-any-return]


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return UNSTORABLE.sub(_REPLACEMENT, value)
    if is_dataclass(value) and not isinstance(value, type):
        held = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
        cleaned = {name: _storable(each) for name, each in held.items()}
        changed = {name: each for name, each in cleaned.items() if each is not held[name]}
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
