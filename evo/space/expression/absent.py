"""Removes comparisons with None, null and NaN, which are never the value of a tunable or a field."""

import ast
from collections.abc import Collection, Mapping, Sequence

from evo.trial import Value

ABSENT = frozenset({"none", "null", "nil", "nan", "undefined", "nullptr", "nullopt", "na", "qnan"})
"""Words of other languages for a missing value, in lower case."""
_EQUALITIES = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)
_TESTS = {"isnan": False, "isnull": False, "isna": False, "isfinite": True, "notnull": True, "notna": True}


def absent_name(name: str, scope: Collection[str]) -> bool:
    """Return True if a name is not in `scope` and means a missing value, e.g. ``nil``."""
    return name not in scope and name.lower() in ABSENT


def without_absent(node: ast.expr, choices: Mapping[str, Sequence[Value]]) -> ast.expr | None:
    """Replace a condition that compares with a missing value, such as None or NaN.

    ``N == None`` becomes False, and ``N != None`` becomes True. If one of N's values is a word in `ABSENT` or the
    number 0, which may stand for a missing value, N is compared with this value instead. Comparisons with NaN always
    become False, or True with ``!=``. Tests such as ``isnan(N)`` become False or True. Missing values in a list, as in
    ``N in (None, 2)``, are removed from it.

    Returns:
        The new condition; None if the node is not such a condition.

    Args:
        choices: the possible values of each known name.
    """
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[_]) if name in _TESTS:
            return ast.Constant(value=_TESTS[name])
        case ast.Compare(left=left, ops=[op], comparators=[ast.List() | ast.Tuple() | ast.Set() as listed]):
            kept = [each for each in listed.elts if not _is_absent(each, choices)]
            if len(kept) == len(listed.elts):
                return None
            choice = ast.Tuple(elts=kept, ctx=ast.Load())
            compared = ast.Compare(left=left, ops=[op], comparators=[choice])
            return compared if kept else ast.Constant(value=isinstance(op, ast.NotIn | ast.NotEq))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if _is_absent(right, choices):
            return _compared(left, op, right, choices)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if _is_absent(left, choices):
            return _compared(right, op, left, choices)
    return None


def _is_absent(node: ast.expr, scope: Collection[str]) -> bool:
    return (isinstance(node, ast.Constant) and node.value is None) or absent_name(_word(node), scope)


def _word(node: ast.expr) -> str:
    """Return a name without its module, or the text in ``float("nan")``; empty for other nodes."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str() as text)]):
            return text
    return ""


def _compared(node: ast.expr, op: ast.cmpop, absent: ast.expr, choices: Mapping[str, Sequence[Value]]) -> ast.expr:
    differs = isinstance(op, ast.NotEq | ast.IsNot)
    named = isinstance(node, ast.Name) and isinstance(op, _EQUALITIES) and "nan" not in _word(absent).lower()
    values = choices.get(node.id, ()) if named and isinstance(node, ast.Name) else ()
    for value in values:
        text = isinstance(value, str) and value.lower() in ABSENT
        if text or (value == 0 and not isinstance(value, bool)):
            sign = ast.NotEq() if differs else ast.Eq()
            return ast.Compare(left=node, ops=[sign], comparators=[ast.Constant(value=value)])
    return ast.Constant(value=differs)


def simplified(node: ast.expr) -> ast.expr:
    """Return a condition without the constants that do not change it; ``N > 2 and True`` becomes ``N > 2``."""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=ast.Constant(value=bool() as truth)):
            return ast.Constant(value=not truth)
        case ast.IfExp(test=ast.Constant(value=bool() as truth)):
            return node.body if truth else node.orelse
        case ast.BoolOp(op=op, values=values):
            neutral = isinstance(op, ast.And)
            truths = set(map(_truth, values))
            if (not neutral) in truths:
                return ast.Constant(value=not neutral)
            kept = [each for each in values if _truth(each) is None]
            if len(kept) < 2:
                return kept[0] if kept else ast.Constant(value=neutral)
            return ast.BoolOp(op=op, values=kept)
    return node


def _truth(node: ast.expr) -> bool | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, bool) else None
