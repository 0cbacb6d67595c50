"""Puts hostile values at random positions of documents. A seed determines the positions and values."""

import copy
import random
from collections.abc import Iterator
from typing import Any

SCRIPT = "<script>alert('x')</script>"
ATTRIBUTE = "\"' onmouseover=alert(1) x='"
TEMPLATE = "{{ 7*7 }}{% raise %}${7*7}"
TRAVERSAL = "../../../../etc/passwd"

NASTY: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**31,
    2**63,
    -(2**63) - 1,
    10**400,
    1e308,
    -0.0,
    0.1,
    float("nan"),
    float("inf"),
    "",
    " ",
    "\x00",
    "\ud800",
    "a\nb\r\n",
    "ключ 💥",
    "x" * 20_000,
    SCRIPT,
    ATTRIBUTE,
    TEMPLATE,
    TRAVERSAL,
    "'; DROP TABLE searches; --",
    "9**9**9**9",
    "N*" * 5_000 + "N",
    "(" * 2_000,
    "__import__('os').system('id')",
    "().__class__.__bases__",
    "N // 0",
    "1 if N else",
    [],
    {},
    [[]],
    {"": None},
    {"__proto__": {"x": 1}},
    [SCRIPT] * 50,
    {"kind": "measured"},
    {"type": "int"},
)


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in a document."""
    if path:
        yield path
    if isinstance(document, dict):
        for name, value in document.items():
            yield from places(value, (*path, name))
    elif isinstance(document, list):
        for number, value in enumerate(document):
            yield from places(value, (*path, number))


def spoiled(document: Any, rng: random.Random) -> Any:
    """Return a copy with one to three values replaced, removed, duplicated or renamed."""
    changed = copy.deepcopy(document)
    for _ in range(rng.randint(1, 3)):
        _spoil(changed, rng.choice(list(places(changed)) or [()]), rng)
    return changed


def _spoil(document: Any, path: tuple[Any, ...], rng: random.Random) -> None:
    if not path:
        return
    parent = document
    for step in path[:-1]:
        parent = parent[step]
    last, action = path[-1], rng.random()
    if action < 0.75:
        parent[last] = copy.deepcopy(rng.choice(NASTY))
    elif action < 0.85:
        del parent[last]
    elif isinstance(parent, dict):
        parent[rng.choice([SCRIPT, TRAVERSAL, "\ud800", "\x00", "", "x" * 300, "name", "kind"])] = parent[last]
    else:
        parent.append(parent[last])
