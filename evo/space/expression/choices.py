"""Finds comparisons of a name with a value that the name never has, and suggests corrections for error messages."""

import ast
import difflib
import math
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from evo.space.expression.arithmetic import INTEGER_LIMIT
from evo.space.expression.evaluation import COMPARISONS
from evo.space.expression.spelling import pasted, word
from evo.text.toml_values import as_toml, numbers_in
from evo.trial import Value

Scope: TypeAlias = Collection[str] | Mapping[str, Sequence[Value]]
"""Names that an expression may use, optionally with their possible values. An empty list allows any value."""


BOUNDS: Mapping[str, int | float] = {
    **dict.fromkeys(("inf", "infinity", "∞", "flt_max", "dbl_max", "maxsize"), INTEGER_LIMIT - 1),
    **dict.fromkeys(("llong_max", "int64_max", "long_max", "size_max"), INTEGER_LIMIT - 1),
    **dict.fromkeys(("int_max", "int32_max"), 2**31 - 1),
    **dict.fromkeys(("uint_max", "uint32_max"), 2**32 - 1),
    **dict.fromkeys(("pi", "m_pi", "π"), math.pi),
}
"""Numbers by their names in other languages, in lower case. All values are below `INTEGER_LIMIT`, so the largest number
replaces infinity.
"""


def words_meant(missing: Collection[str], choices: Mapping[str, Sequence[Value]]) -> dict[str, Value]:
    """Return the probable value, by name, of the unknown names that seem to mean a truth value, a number or a string.

    Args:
        missing: the unknown names.
        choices: the possible values of each known name.
    """
    texts = {value for values in choices.values() for value in values if isinstance(value, str)}
    meant: dict[str, Value] = {}
    for name in missing:
        if name in texts:
            meant[name] = name
        elif (truth := word(name)) is not None:
            meant[name] = truth
        elif name.lower() in BOUNDS:
            meant[name] = BOUNDS[name.lower()]
    return meant


def impossible_value(tree: ast.expr, choices: Mapping[str, Sequence[Value]]) -> str | None:
    """Return an error text with a correction if a name is compared with a constant that it can never equal; else None.

    There is an error in two cases:

    - Either the constant or the name's values are strings, but not both.
    - A string is compared for equality or membership, and is not one of the name's values. A name with only one
      possible value is not checked, because the author may have removed the other values temporarily.

    Numbers that are not values of the name are accepted.
    """
    for name, op, constant in _comparisons(tree):
        values, value = choices.get(name, ()), constant.value
        mixed = bool(values) and isinstance(value, str) != isinstance(values[0], str)
        other = isinstance(value, str) and isinstance(op, _EQUALITIES) and len(values) > 1 and value not in values
        if not (mixed or other):
            continue
        if not isinstance(value, str) and (numbers := numbers_in(values)) is not None:
            return f"the values of {name} are strings; in the tunable, write values = {as_toml(numbers[:100])}"
        near = _nearest(str(value), values)
        written = pasted(_replaced(tree, constant, values[0] if near is None else near))
        if near is not None:
            return f"{value!r:.100} is not a value of {name}; write {written}"
        return f"{value!r:.100} is not a value of {name}, which has {_shown(values)}; write e.g. {written}"
    return None


def _replaced(tree: ast.expr, constant: ast.Constant, value: Value) -> str:
    """Return the text of a tree with another value in place of a constant."""
    before, constant.value = constant.value, value
    try:
        return ast.unparse(tree)
    finally:
        constant.value = before


_EQUALITIES = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)


def absent_value(tree: ast.expr, choices: Mapping[str, Sequence[Value]]) -> str | None:
    """Return an error text if a name is compared with a constant that is not one of its values; else None."""
    for name, op, constant in _comparisons(tree):
        if isinstance(op, _EQUALITIES) and name in choices and constant.value not in choices[name]:
            return f"{constant.value!r:.100} is not a value of {name}, which has {_shown(choices[name])}"
    return None


def _comparisons(tree: ast.expr) -> Iterator[tuple[str, ast.cmpop, ast.Constant]]:
    """Yield each name that is compared with a constant, with the operator and the constant."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare):
            continue
        left = node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            for name, value in ((left, right), (right, left)):
                for each in value.elts if isinstance(value, ast.Tuple) else [value]:
                    if isinstance(name, ast.Name) and isinstance(each, ast.Constant):
                        yield name.id, op, each
            left = right


def _nearest(text: str, values: Sequence[Value]) -> Value | None:
    """Return the value that a string probably means; None if no value is similar."""
    written = {str(value): value for value in values}
    if text in written:  # e.g. the string "4" for the number 4
        return written[text]
    if (truth := word(text)) is not None and truth in values:
        return truth
    lower = {name.lower(): value for name, value in written.items()}
    near = difflib.get_close_matches(text.lower(), lower, n=1, cutoff=0.6)
    return lower[near[0]] if near else None


def _shown(values: Sequence[Value]) -> str:
    return ", ".join(map(repr, values[:20])) + (", …" if len(values) > 20 else "")


_METHODS = frozenset(
    ("startswith", "endswith", "lower", "upper", "casefold", "strip", "count", "find", "bit_length", "is_integer")
)
_CALLS: Mapping[str, Callable[..., Any]] = {
    **{name: getattr(math, name) for name in ("log", "log2", "log10", "exp", "sin", "cos", "tanh", "floor", "ceil")},
    "len": len,
    "str": str,
    "int": int,
    "float": float,
    "next_power_of_2": lambda value: 1 << (int(value) - 1).bit_length(),
}
_OPERATORS: Mapping[type[Any], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.Div: operator.truediv,
    **COMPARISONS,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


def by_values(node: ast.expr, choices: Mapping[str, Sequence[Value]]) -> ast.expr | None:
    """Convert a condition that expressions do not support to a comparison with the values that satisfy it.

    For example, ``ORDER.startswith("r")`` becomes ``ORDER == 'rows'``. The result is None if no operation of the
    condition needs this conversion (`_is_foreign`). It is also None if the condition does not contain exactly one name
    of `choices`, cannot be computed for one of its values, or is true for no value, for all values, or for more than
    `_MOST_LISTED` values.
    """
    used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    names = used.intersection(choices)
    if len(names) != 1 or not any(map(_is_foreign, ast.walk(node))):
        return None
    (name,) = names
    try:
        true = [value for value in choices[name] if _value(node, name, value)]
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError):
        return None
    if not 0 < len(true) < len(choices[name]) or len(true) > _MOST_LISTED:
        return None
    listed: list[ast.expr] = [ast.Constant(value=value) for value in true]
    if len(listed) == 1:
        return ast.Compare(left=ast.Name(id=name, ctx=ast.Load()), ops=[ast.Eq()], comparators=listed)
    values = ast.Tuple(elts=listed, ctx=ast.Load())
    return ast.Compare(left=ast.Name(id=name, ctx=ast.Load()), ops=[ast.In()], comparators=[values])


_MOST_LISTED = 20
_BYTES: Mapping[str, int] = {
    **dict.fromkeys(("float64", "int64", "double"), 8),
    **dict.fromkeys(("float32", "int32", "tf32", "float"), 4),
    **dict.fromkeys(("float16", "bfloat16", "int16", "half"), 2),
    **dict.fromkeys(("int8", "uint8", "float8_e4m3", "float8_e5m2", "e4m3", "e5m2", "fp8"), 1),
}
"""Size of one element in bytes, by the name of its dtype."""


def bytes_of(name: str, values: Sequence[Value]) -> ast.expr | None:
    """Return an expression for the element size in bytes of a dtype field, e.g. ``4 if dtype == 'float32' else 2``.

    The result is None if the field's values are not known, or if one of them is not a dtype.
    """
    sizes = [_BYTES.get(str(value), 0) for value in values]
    if not sizes or not all(sizes):
        return None
    tree: ast.expr = ast.Constant(value=sizes[-1])
    for size in sorted({*sizes} - {sizes[-1]}):
        named = [str(value) for value, each in zip(values, sizes, strict=True) if each == size]
        test = f"{name} in {tuple(named)}" if len(named) > 1 else f"{name} == {named[0]!r}"
        tree = ast.IfExp(test=ast.parse(test, mode="eval").body, body=ast.Constant(value=size), orelse=tree)
    return tree


def _is_foreign(node: ast.AST) -> bool:
    """Return True for an operation that expressions do not support, but that can be computed for each value.

    An example is ``dtype.startswith('f')``.
    """
    match node:
        case ast.Call(func=ast.Attribute(attr=called) | ast.Name(id=called)):
            return called in _METHODS or called in ("log", "log10", "exp", "len", "str", "next_power_of_2")
        case ast.Compare(left=ast.Constant(value=str()), ops=[ast.In() | ast.NotIn()], comparators=[ast.Name()]):
            return True
        case ast.Subscript(value=ast.Name(), slice=ast.Slice() | ast.Constant(value=int())):
            return True
    return False


def _value(node: ast.AST | None, name: str, value: Value) -> Any:  # noqa: PLR0911
    """Return the value of a tree in which the only name, `name`, has the given value.

    Raises:
        TypeError, ValueError, ArithmeticError, LookupError, AttributeError: the tree has no value.
    """

    def of(part: ast.AST | None) -> Any:
        return _value(part, name, value)

    match node:
        case None:
            return None
        case ast.Constant(value=constant):
            return constant
        case ast.Name(id=named) if named == name:
            return value
        case ast.Slice(lower=lower, upper=upper, step=step):
            return slice(of(lower), of(upper), of(step))
        case ast.Subscript(value=text, slice=place):
            return of(text)[of(place)]
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _OPERATORS[type(op)](of(left), of(right))
        case ast.BinOp(left=left, op=op, right=right):
            numbers = of(left), of(right)
            if any(isinstance(each, str) for each in numbers):  # "%9999999d" % 1 would be a long string
                raise TypeError("texts have no arithmetic")
            return _OPERATORS[type(op)](*numbers)
        case ast.Call(func=ast.Attribute(value=owner, attr=method), args=arguments) if method in _METHODS:
            return getattr(of(owner), method)(*map(of, arguments))
        case ast.Call(func=ast.Attribute(attr=called) | ast.Name(id=called), args=arguments):
            return _CALLS[called](*map(of, arguments))
    raise TypeError(f"{type(node).__name__} is not supported")
