"""Suggests a valid expression for an expression in the syntax of C, SQL or full Python."""

import ast
import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evo.space.expression.spelling import spelled, with_phrases, with_sizes

_FUNCTIONS: Mapping[str, str] = {
    "fmin": "min",
    "fmax": "max",
    "Min": "min",
    "Max": "max",
    "MIN": "min",
    "MAX": "max",
    "fabs": "abs",
    "cdiv": "ceil_div",
    "CEIL_DIV": "ceil_div",
    "div_up": "ceil_div",
    "DIV_UP": "ceil_div",
}
_POWER = 30
"""``2 ** 30 % x == 0`` is true for the powers of two up to 2**30, and for no other positive number."""


def rewritten(text: str) -> ast.expr | None:
    """Return a syntax tree with the probable meaning of `text`; None if the meaning is unclear.

    The tree may still contain forbidden syntax.
    """
    text = implied(with_phrases(with_sizes(text)))
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        try:
            tree = ast.parse(spelled(text), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    except (ValueError, RecursionError, MemoryError):
        return None
    try:
        return ast.fix_missing_locations(_Translator().visit(tree))  # type: ignore[no-any-return]
    except RecursionError:
        return None


_IMPLIES = re.compile(r"(.+?)(?:=>|->|\bimplies\b)(.+)", re.DOTALL)
_JOINED = re.compile(r"\b(?:and|or)\b|&&|\|\|")
_CONDITION = re.compile(r"[=!<>]=|[<>]|\b(?:not|in)\b")


def implied(text: str) -> str:
    """Return the implication ``a => b`` as ``not (a) or (b)``; any other text unchanged.

    If the operands of ``=>`` are not conditions, the author means ``>=``, and the text is not an implication.
    """
    found = _IMPLIES.fullmatch(text)
    if found is None or _IMPLIES.fullmatch(found[2]):
        return text
    beside = (_JOINED.split(found[1])[-1], _JOINED.split(found[2])[0])
    if "=>" in text and not any(map(_CONDITION.search, beside)):
        return text
    return f"not ({found[1].strip()}) or ({found[2].strip()})"


def pasted(text: str) -> str:
    """Return an expression as it is written in a document: in double quotes, which TOML, JSON and Python all accept."""
    note = f" (2 ** {_POWER} % n is 0 for powers of two)" if f"2 ** {_POWER} % " in text else ""
    return f"`{json.dumps(text, ensure_ascii=False)}`{note}"


def renamed(tree: ast.expr, constants: Mapping[str, Any]) -> str:
    """Return the tree as text, with some names replaced by constants."""

    class Quoter(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return ast.Constant(value=constants[node.id]) if node.id in constants else node

    return ast.unparse(Quoter().visit(ast.parse(ast.unparse(tree), mode="eval")))


class _Translator(ast.NodeTransformer):
    """Replaces operators and calls that expressions do not support by equivalent expressions."""

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return self.visit(node.body)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        name = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if isinstance(name, str) and name.isidentifier():
            return ast.Name(id=name, ctx=ast.Load())
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        return ast.Name(id=node.attr, ctx=ast.Load())

    def visit_BinOp(self, node: ast.BinOp) -> Any:  # noqa: PLR0911
        self.generic_visit(node)
        match node.op:
            case ast.BitAnd() if _logical(node.left) and _logical(node.right):
                return ast.BoolOp(op=ast.And(), values=[node.left, node.right])
            case ast.BitOr() if _logical(node.left) and _logical(node.right):
                return ast.BoolOp(op=ast.Or(), values=[node.left, node.right])
            case ast.BitXor() if _logical(node.left) and _logical(node.right):
                return ast.Compare(left=node.left, ops=[ast.NotEq()], comparators=[node.right])
            case ast.BitAnd() if (mask := _mask(node.right)) is not None:
                return ast.BinOp(left=node.left, op=ast.Mod(), right=ast.Constant(value=mask + 1))
            case ast.LShift():
                return ast.BinOp(left=node.left, op=ast.Mult(), right=_two_to(node.right))
            case ast.RShift():
                return ast.BinOp(left=node.left, op=ast.FloorDiv(), right=_two_to(node.right))
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not) and (base := _without_lowest_bit(node.operand)) is not None:
            return _zero_or_power_of_two(self.visit(base), ast.Eq())
        self.generic_visit(node)
        if isinstance(node.op, ast.Invert) and _logical(node.operand):
            return ast.UnaryOp(op=ast.Not(), operand=node.operand)
        return node

    def visit_Compare(self, node: ast.Compare) -> Any:
        if (flattened := _conjunction(node)) is not None:
            return self.visit(flattened)
        base, right = _without_lowest_bit(node.left), node.comparators[0]
        zero = isinstance(right, ast.Constant) and right.value == 0 and not isinstance(right.value, bool)
        if (inverted := _without_root(node)) is not None:
            return self.visit(inverted)
        if base is not None and zero and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            return _zero_or_power_of_two(self.visit(base), node.ops[0])
        self.generic_visit(node)
        node.ops = [_EQUALITIES.get(type(op), lambda op=op: op)() for op in node.ops]
        node.comparators = [
            _choices(right) if isinstance(op, ast.In | ast.NotIn) and not _within(node.left, right) else right
            for op, right in zip(node.ops, node.comparators, strict=True)
        ]
        return node

    def visit_Call(self, node: ast.Call) -> Any:  # noqa: PLR0911
        node.args = [self.visit(each) for each in node.args]
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        node.func = ast.Name(id=_FUNCTIONS.get(name, name), ctx=ast.Load())
        if (operation := _operation(name, node.args)) is not None:
            return operation
        match name, node.args:
            case "ceil", [ast.BinOp(left=left, op=ast.Div(), right=right)]:
                return ast.Call(func=ast.Name(id="ceil_div", ctx=ast.Load()), args=[left, right], keywords=[])
            case "int" | "floor", [ast.BinOp(left=left, op=ast.Div(), right=right)]:
                return ast.BinOp(left=left, op=ast.FloorDiv(), right=right)
            case "sum", [ast.List(elts=[first, *others]) | ast.Tuple(elts=[first, *others])]:
                return functools.reduce(
                    lambda left, right: ast.BinOp(left=left, op=ast.Add(), right=right), others, first
                )
            case "min" | "max" | "all" | "any", [ast.List(elts=[value]) | ast.Tuple(elts=[value])]:
                return value
            case "min" | "max", [ast.List(elts=values) | ast.Tuple(elts=values)]:
                node.args = values
            case "int" | "float" | "bool", [value]:
                return value
            case "all", [ast.List(elts=values) | ast.Tuple(elts=values)] if values:
                return ast.BoolOp(op=ast.And(), values=values)
            case "any", [ast.List(elts=values) | ast.Tuple(elts=values)] if values:
                return ast.BoolOp(op=ast.Or(), values=values)
        return node


_OPERATIONS: Mapping[tuple[str, int], str] = {
    ("pow", 2): "({}) ** ({})",
    ("sqrt", 1): "({}) ** 0.5",
    ("square", 1): "({}) ** 2",
    ("mod", 2): "({}) % ({})",
    ("fmod", 2): "({}) % ({})",
    ("not", 1): "not ({})",
    ("xor", 2): "({}) != ({})",
    ("implies", 2): "not ({}) or ({})",
}
"""Expressions for functions of other languages, by lower-case name and number of arguments."""
_POWER_TEST = re.compile(r"is_?pow(?:er)?_?(?:of_?)?(?:2|two)", re.IGNORECASE)
"""Matches names of functions that test for a power of two, such as ``is_power_of_2`` and ``isPow2``."""
_EQUALITIES: Mapping[type[ast.cmpop], Callable[[], ast.cmpop]] = {ast.Is: ast.Eq, ast.IsNot: ast.NotEq}


def _operation(name: str, operands: Sequence[ast.expr]) -> ast.expr | None:
    """Return the operation that a call such as ``mod(a, b)`` or ``And(a, b)`` denotes; None for unknown functions.

    Args:
        name: name of the called function.
        operands: arguments of the call.
    """
    if _POWER_TEST.fullmatch(name) and len(operands) == 1:
        return _power_of_two(operands[0], ast.Eq())
    if name.lower() in ("and", "or") and len(operands) > 1:
        return ast.BoolOp(op=ast.And() if name.lower() == "and" else ast.Or(), values=list(operands))
    form = _OPERATIONS.get((name.lower(), len(operands)))
    return ast.parse(form.format(*map(ast.unparse, operands)), mode="eval").body if form else None


def _logical(node: ast.expr) -> bool:
    return isinstance(node, ast.Compare | ast.BoolOp) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    )


def _mask(node: ast.expr) -> int | None:
    """Return a node's constant if it is 1, 3, 7 … (all bits below a power of two); else None."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if type(value) is int and value > 0 and value & (value + 1) == 0 else None


def _two_to(exponent: ast.expr) -> ast.expr:
    if isinstance(exponent, ast.Constant) and type(exponent.value) is int and 0 <= exponent.value < 62:
        return ast.Constant(value=1 << exponent.value)
    return ast.BinOp(left=ast.Constant(value=2), op=ast.Pow(), right=exponent)


def _without_lowest_bit(node: ast.expr) -> ast.expr | None:
    """Return ``x`` if the node is ``x & (x - 1)``, which is zero if x is zero or a power of two; else None."""
    match node:
        case ast.BinOp(
            left=left, op=ast.BitAnd(), right=ast.BinOp(left=again, op=ast.Sub(), right=ast.Constant(value=1))
        ):
            return left if ast.dump(left) == ast.dump(again) else None
    return None


def _power_of_two(base: ast.expr, op: ast.cmpop) -> ast.expr:
    power = ast.BinOp(left=ast.Constant(value=2), op=ast.Pow(), right=ast.Constant(value=_POWER))
    remainder = ast.BinOp(left=power, op=ast.Mod(), right=base)
    return ast.Compare(left=remainder, ops=[op], comparators=[ast.Constant(value=0)])


def _zero_or_power_of_two(base: ast.expr, op: ast.cmpop) -> ast.expr:
    """Return a comparison that is true if `base` is zero or a power of two; with the operator ``!=``, its negation."""
    is_zero = ast.Compare(left=base, ops=[op], comparators=[ast.Constant(value=0)])
    joined = ast.Or() if isinstance(op, ast.Eq) else ast.And()
    return ast.BoolOp(op=joined, values=[is_zero, _power_of_two(base, op)])


def _without_root(node: ast.Compare) -> ast.expr | None:
    """Return an equivalent comparison without ``log2`` and ``sqrt``; None if there is none.

    ``log2(a) <= 7`` becomes ``a <= 128``, ``sqrt(a) < 9`` becomes ``a < 81``, and ``log2(a) % 1 == 0`` becomes a test
    for a power of two.
    """
    if len(node.ops) != 1:
        return None
    op, left, right = node.ops[0], node.left, node.comparators[0]
    match left, right:
        case ast.BinOp(left=ast.Call() as call, op=ast.Mod(), right=ast.Constant(value=1)), ast.Constant(value=0):
            base = _argument(call, "log2")
            return None if base is None or not isinstance(op, ast.Eq | ast.NotEq) else _power_of_two(base, op)
        case ast.Call() as call, ast.Constant() as bound if (inverse := _inverse(call, bound)) is not None:
            return ast.Compare(left=call.args[0], ops=[op], comparators=[inverse])
        case ast.Constant() as bound, ast.Call() as call if (inverse := _inverse(call, bound)) is not None:
            return ast.Compare(left=inverse, ops=[op], comparators=[call.args[0]])
    return None


def _inverse(call: ast.Call, bound: ast.Constant) -> ast.Constant | None:
    """Return the bound for x that a bound for ``log2(x)`` or ``sqrt(x)`` implies, e.g. 128 for 7; None if unknown."""
    value = bound.value
    if type(value) is not int or not 0 <= value < 62:
        return None
    if _argument(call, "log2") is not None:
        return ast.Constant(value=1 << value)
    return ast.Constant(value=value * value) if _argument(call, "sqrt") is not None else None


def _argument(call: ast.Call, function: str) -> ast.expr | None:
    """Return the argument of a call if it calls the named function, with or without its module; else None."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return call.args[0] if name == function and len(call.args) == 1 and not call.keywords else None


def _conjunction(node: ast.Compare) -> ast.expr | None:
    """Return ``a == 1 & b == 2`` as two joined comparisons; None for other nodes.

    Python reads it as a chain of comparisons whose middle operand is ``1 & b``.
    """
    if len(node.ops) != 2:
        return None
    match node.comparators[0]:
        case ast.BinOp(left=inner_left, op=(ast.BitAnd() | ast.BitOr() | ast.BitXor()) as op, right=inner_right):
            first = ast.Compare(left=node.left, ops=node.ops[:1], comparators=[inner_left])
            second = ast.Compare(left=inner_right, ops=node.ops[1:], comparators=node.comparators[1:])
            if isinstance(op, ast.BitXor):
                return ast.Compare(left=first, ops=[ast.NotEq()], comparators=[second])
            return ast.BoolOp(op=ast.And() if isinstance(op, ast.BitAnd) else ast.Or(), values=[first, second])
    return None


def _within(left: ast.expr, right: ast.expr) -> bool:
    """Return True if ``in`` searches within a string, e.g. ``'float' in dtype``. Expressions do not support this."""
    return isinstance(left, ast.Constant) and isinstance(left.value, str) and isinstance(right, ast.Name)


def _choices(node: ast.expr) -> ast.expr:
    """Return the right side of ``in`` as a tuple. A ``range()`` with constant bounds is expanded."""
    match node:
        case ast.List(elts=values) | ast.Set(elts=values):
            return ast.Tuple(elts=values, ctx=ast.Load())
        case ast.Constant() | ast.Name():
            return ast.Tuple(elts=[node], ctx=ast.Load())
        case ast.Call(func=ast.Name(id="range"), args=ends) if all(isinstance(end, ast.Constant) for end in ends):
            numbers = range(*(end.value for end in ends if isinstance(end, ast.Constant)))  # type: ignore[arg-type]
            return ast.Tuple(elts=[ast.Constant(value=each) for each in numbers[:100]], ctx=ast.Load())
    return node
