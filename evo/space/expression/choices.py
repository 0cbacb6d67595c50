"""Checks that the constants with which an expression compares a name are possible values of the name."""

import ast
import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from evo.space.expression.spelling import word
from evo.trial import Value

Scope: TypeAlias = Collection[str] | Mapping[str, Sequence[Value]]
"""Names of an expression and, if known, their possible values. An empty list means that any value is possible."""


def words_meant(missing: Collection[str], choices: Mapping[str, Sequence[Value]]) -> dict[str, Value]:
    """Return the probable value of each unknown name that seems to mean ``true``, ``false`` or a string."""
    texts = {value for values in choices.values() for value in values if isinstance(value, str)}
    meant: dict[str, Value] = {}
    for name in missing:
        truth = word(name)
        if truth is not None:
            meant[name] = truth
        elif name in texts:
            meant[name] = name
    return meant


def impossible_value(tree: ast.expr, choices: Mapping[str, Sequence[Value]]) -> str | None:
    """Return an error text with a correction if a name is compared with a string that it can never equal; else None.

    A name with only one possible value is not checked, because the author may have removed the other values
    temporarily.
    """
    for name, text in _comparisons(tree):
        values = choices.get(name, ())
        if (
            not isinstance(text, str) or len(values) < 2 or text in values
        ):  # a number never equals a string, so `in` is exact
            continue
        return f"{text!r:.100} is not a value of {name}; write {_nearest(text, values)}"
    return None


def absent_value(tree: ast.expr, choices: Mapping[str, Sequence[Value]]) -> str | None:
    """Return an error text if a name is compared with a constant that is not one of its values; else None."""
    for name, value in _comparisons(tree):
        if name in choices and value not in choices[name]:
            shown = ", ".join(map(repr, choices[name][:20]))
            more = ", …" if len(choices[name]) > 20 else ""
            return f"{value!r:.100} is not a value of {name}, which has {shown}{more}"
    return None


def _comparisons(tree: ast.expr) -> Iterator[tuple[str, Value]]:
    """Yield each pair of a name and a constant that ``==``, ``!=``, ``in`` or ``not in`` compares."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare):
            continue
        left = node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn):
                yield from _pairs(left, right)
                yield from _pairs(right, left)
            left = right


def _pairs(name: ast.expr, value: ast.expr) -> Iterator[tuple[str, Value]]:
    for each in value.elts if isinstance(value, ast.Tuple) else [value]:
        if (
            isinstance(name, ast.Name)
            and isinstance(each, ast.Constant)
            and isinstance(each.value, bool | int | float | str)
        ):
            yield name.id, each.value


def _nearest(text: str, values: Sequence[Value]) -> str:
    written = {str(value): repr(value) for value in values}
    if text in written:  # e.g. the string "4" for the number 4
        return f"`{written[text]}`"
    if (truth := word(text)) is not None and truth in values:
        return f"`{truth}`"
    near = difflib.get_close_matches(text, written, n=1, cutoff=0.6)
    if near:
        return f"`{written[near[0]]}`"
    shown = list(written.values())
    return f"one of {', '.join(shown[:20])}{', …' if len(shown) > 20 else ''}"
