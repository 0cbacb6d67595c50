"""Suggests a valid expression for an expression in the syntax of C, SQL or full Python."""

import ast
import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from evo.space.expression.absent import simplified, without_absent
from evo.space.expression.arithmetic import INTEGER_LIMIT
from evo.space.expression.choices import BOUNDS, Scope, by_values, bytes_of
from evo.space.expression.evaluation import free_names
from evo.space.expression.functions import (
    elements,
    form,
    function_name,
    given_by_name,
    operation,
    own_name,
    without_root,
    zero_or_power_of_two,
)
from evo.space.expression.phrases import guesses, with_phrases
from evo.space.expression.spelling import spelled, with_sizes
from evo.space.expression.substitution import replaced


def rewritten(text: str, scope: Scope = ()) -> Iterator[ast.expr]:
    """Yield syntax trees with probable meanings of `text`, the most probable first; none if the meaning is unclear.

    The trees may still contain forbidden syntax.

    Args:
        text: an expression that may be written in the syntax of C, SQL or full Python.
        scope: known names, as for `Expression.check_names`.
    """
    powers = [re.sub(r"\^", "**", text)] if "^" in text and "^^" not in text else []
    names = set(scope).intersection(re.findall(r"[A-Za-z_]\w*", text))
    for each in (*powers, text, *guesses(text)):
        tree = _reading(each, scope)
        if tree is not None and (free_names(tree) or not (names or _is_truth(tree))):
            yield tree


def _reading(text: str, scope: Scope) -> ast.expr | None:
    text = implied(with_phrases(with_sizes(text)))
    translator = _Translator(scope)
    try:
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except SyntaxError:
            tree = ast.parse(spelled(text), mode="eval").body
        return ast.fix_missing_locations(translator.visit(_joined(tree)))  # type: ignore[no-any-return]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _joined(tree: ast.expr) -> ast.expr:
    """Return a list, tuple or set of conditions as one condition, joined by ``and``; any other tree unchanged."""
    if isinstance(tree, ast.List | ast.Tuple | ast.Set) and tree.elts:
        parts = [_joined(each) for each in tree.elts]
        return ast.BoolOp(op=ast.And(), values=parts) if len(parts) > 1 else parts[0]
    return tree


_IMPLIES = re.compile(r"(.+?)(?:=>|->|\bimplies\b)(.+)", re.DOTALL)
_JOINED = re.compile(r"\b(?:and|or)\b|&&|\|\|")
_CONDITION = re.compile(r"[=!<>]=|[<>]|\b(?:not|in)\b")


def implied(text: str) -> str:
    """Return the implication ``a => b``, ``a -> b`` or ``a implies b`` as ``not (a) or (b)``; other texts unchanged.

    If neither operand of ``=>`` is a condition, the author probably means ``>=``, and the text is not changed. A chain
    of several implications is not changed either.
    """
    found = _IMPLIES.fullmatch(text)
    if found is None or _IMPLIES.fullmatch(found[2]):
        return text
    beside = (_JOINED.split(found[1])[-1], _JOINED.split(found[2])[0])
    if "=>" in text and not any(map(_CONDITION.search, beside)):
        return text
    return f"not ({found[1].strip()}) or ({found[2].strip()})"


def renamed(tree: ast.expr, constants: Mapping[str, Any]) -> str:
    """Return the tree as text, with some names replaced by constants."""
    return ast.unparse(replaced(tree, {name: ast.Constant(value=value) for name, value in constants.items()}))


class _Translator(ast.NodeTransformer):
    """Replaces operators and calls that expressions do not support with equivalent expressions.

    Args:
        scope: known names, as for `Expression.check_names`.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.choices = scope if isinstance(scope, Mapping) else {}

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Compare | ast.Call):
            for read in (without_absent, by_values):
                if (meant := read(node, self.choices)) is not None:
                    return super().visit(meant) if isinstance(meant, ast.Compare) else meant
        visited = super().visit(node)
        return simplified(visited) if isinstance(visited, ast.expr) else visited

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return self.visit(node.body)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        known = isinstance(node.target, ast.Name) and node.target.id in self.scope
        return self.visit(node.target if known else node.value)

    def visit_Constant(self, node: ast.Constant) -> Any:
        huge = isinstance(node.value, int | float) and node.value >= INTEGER_LIMIT
        return ast.Constant(value=INTEGER_LIMIT - 1) if huge else node

    def visit_Name(self, node: ast.Name) -> Any:
        known = node.id in self.scope or node.id.lower() not in BOUNDS
        return node if known else ast.Constant(value=BOUNDS[node.id.lower()])

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        match node:
            case ast.Subscript(slice=ast.Constant(value=str() as name)) if name.isidentifier():
                return ast.Name(id=name, ctx=ast.Load())
            case ast.Subscript(
                value=ast.Call(func=ast.Name(id="divmod"), args=[left, right]), slice=ast.Constant(value=0 | 1 as part)
            ):
                return self.visit(form("{0} % {1}" if part else "{0} // {1}", left, right))
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id in self.scope and node.attr not in self.scope:
            size = bytes_of(node.value.id, self.choices.get(node.value.id, ()))
            return size if size is not None and node.attr in ("itemsize", "nbytes", "size") else node.value
        return self.visit_Name(ast.Name(id=node.attr, ctx=ast.Load()))

    def visit_BinOp(self, node: ast.BinOp) -> Any:  # noqa: PLR0911
        self.generic_visit(node)
        logical = self._logical(node.left) and self._logical(node.right)
        match node.op:
            case ast.BitAnd() if logical:
                return form("{0} and {1}", node.left, node.right)
            case ast.BitOr() if logical:
                return form("{0} or {1}", node.left, node.right)
            case ast.BitXor() if not (_is_number(node.left) or _is_number(node.right)):
                return self.visit(form("(not {0}) != (not {1})", node.left, node.right))
            case ast.Pow() if logical:
                raise ValueError("a truth value has no power")
            case ast.BitAnd() if (mask := _mask(node.right)) is not None:
                return form(f"{{0}} % {mask + 1}", node.left)
            case ast.LShift():
                one = isinstance(node.left, ast.Constant) and node.left.value == 1
                return _two_to(node.right) if one else form("{0} * {1}", node.left, _two_to(node.right))
            case ast.RShift():
                return form("{0} // {1}", node.left, _two_to(node.right))
        return node

    def _logical(self, node: ast.expr) -> bool:
        """Return True if a node is a truth value: a comparison, `and`, `or`, `not`, or a name with truth values."""
        values = self.choices.get(node.id, ()) if isinstance(node, ast.Name) else ()
        return _logical(node) or (bool(values) and all(isinstance(each, bool) for each in values))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not) and (base := _without_lowest_bit(node.operand)) is not None:
            return zero_or_power_of_two(self.visit(base), "==")
        self.generic_visit(node)
        if isinstance(node.op, ast.Invert) and self._logical(node.operand):
            return form("not {0}", node.operand)
        if isinstance(node.op, ast.Invert):  # in two's complement
            return form("-{0} - 1", node.operand)
        return node

    def visit_Compare(self, node: ast.Compare) -> Any:
        if (flattened := _joined_bitwise(node)) is not None:
            return self.visit(flattened)
        base, right = _without_lowest_bit(node.left), node.comparators[0]
        zero = isinstance(right, ast.Constant) and right.value == 0 and not isinstance(right.value, bool)
        if (inverted := without_root(node)) is not None:
            return self.visit(inverted)
        if base is not None and zero and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            return zero_or_power_of_two(self.visit(base), "==" if isinstance(node.ops[0], ast.Eq) else "!=")
        self.generic_visit(node)
        if (between := _between(node)) is not None:
            return between
        node.ops = [
            _EQUALITIES.get((type(op), isinstance(right, ast.List | ast.Tuple | ast.Set)), lambda op=op: op)()
            for op, right in zip(node.ops, node.comparators, strict=True)
        ]
        node.comparators = [
            _choices(right) if isinstance(op, ast.In | ast.NotIn) and not _within(node.left, right) else right
            for op, right in zip(node.ops, node.comparators, strict=True)
        ]
        return self._without_double_negation(node)

    def _without_double_negation(self, node: ast.Compare) -> ast.expr:
        """Return ``(not a) != (not b)`` as ``a != b`` if both are truth values; other nodes unchanged."""
        match node:
            case ast.Compare(
                left=ast.UnaryOp(op=ast.Not(), operand=left),
                ops=[ast.Eq() | ast.NotEq()],
                comparators=[ast.UnaryOp(op=ast.Not(), operand=right)],
            ) if self._logical(left) and self._logical(right):
                return ast.Compare(left=left, ops=node.ops, comparators=[right])
        return node

    def visit_Call(self, node: ast.Call) -> Any:  # noqa: PLR0911
        name = own_name(function_name(node))
        if (given := given_by_name(name, node.args)) is not None:
            return given
        values = [self.visit(each) for each in elements(node.args)]
        match name, values:
            case "sizeof" | "itemsize" | "element_size", [ast.Name(id=field)] if field in self.choices:
                return bytes_of(field, self.choices[field]) or node
            case "ceil", [ast.BinOp(left=left, op=ast.Div(), right=right)]:
                return form("ceil_div({0}, {1})", left, right)
            case "int" | "floor", [ast.BinOp(left=left, op=ast.Div(), right=right)]:
                return form("{0} // {1}", left, right)
            case "float", [ast.Constant(value=str() as text)] if text.lower() in BOUNDS:
                return ast.Constant(value=BOUNDS[text.lower()])
            case "min" | "max" | "all" | "any" | "sum" | "prod" | "float" | "bool", [value]:
                return value
            case "sum" | "prod", [first, *others]:
                return functools.reduce(
                    functools.partial(form, "{0} + {1}" if name == "sum" else "{0} * {1}"), others, first
                )
            case "all" | "any", [_, *_]:
                return ast.BoolOp(op=ast.And() if name == "all" else ast.Or(), values=values)
            case "static_assert" | "assert_", [condition, ast.Constant(value=str())]:
                return condition
        owner = [self.visit(node.func.value)] if isinstance(node.func, ast.Attribute) else []
        for operands in (values, [*owner, *values]):  # `np.add(a, b)`, and `a.add(b)`
            if (meant := operation(name, operands)) is not None:
                return self.visit(meant) if isinstance(meant, ast.Compare) else meant
        return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=values, keywords=node.keywords)


_EQUALITIES: Mapping[tuple[type[ast.cmpop], bool], Callable[[], ast.cmpop]] = {
    (ast.Is, False): ast.Eq,
    (ast.IsNot, False): ast.NotEq,
    (ast.Eq, True): ast.In,
    (ast.NotEq, True): ast.NotIn,
}
"""Replacements of operators. A key is the operator and whether its right operand is a list."""


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _logical(node: ast.expr) -> bool:
    return isinstance(node, ast.Compare | ast.BoolOp) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    )


def _is_truth(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def _mask(node: ast.expr) -> int | None:
    """Return a node's constant if it is 1, 3, 7 … (all bits below a power of two); else None."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if type(value) is int and value > 0 and value & (value + 1) == 0 else None


def _two_to(exponent: ast.expr) -> ast.expr:
    if isinstance(exponent, ast.Constant) and type(exponent.value) is int and 0 <= exponent.value < 62:
        return ast.Constant(value=1 << exponent.value)
    return form("2 ** {0}", exponent)


def _without_lowest_bit(node: ast.expr) -> ast.expr | None:
    """Return ``x`` if the node is ``x & (x - 1)``, which is zero if x is zero or a power of two; else None."""
    match node:
        case ast.BinOp(
            left=left, op=ast.BitAnd(), right=ast.BinOp(left=again, op=ast.Sub(), right=ast.Constant(value=1))
        ):
            return left if ast.dump(left) == ast.dump(again) else None
    return None


def _joined_bitwise(node: ast.Compare) -> ast.expr | None:
    """Return ``a == 1 & b == 2`` as ``(a == 1) and (b == 2)``, and None for nodes of a different form.

    ``|`` becomes ``or``, and ``^`` becomes ``!=``. Python parses ``a == 1 & b == 2`` as ``a == (1 & b) == 2``.
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


def _between(node: ast.Compare) -> ast.expr | None:
    """Return ``a in range(b, c)`` as ``b <= a < c`` if an end is not constant; None for other comparisons."""
    match node:
        case ast.Compare(
            left=left, ops=[ast.In()], comparators=[ast.Call(func=ast.Name(id="range"), args=[*ends], keywords=[])]
        ) if len(ends) in (1, 2) and not all(isinstance(each, ast.Constant) for each in ends):
            low = ends[0] if len(ends) == 2 else ast.Constant(value=0)
            return form("{0} <= {1} < {2}", low, left, ends[-1])
    return None


def _within(left: ast.expr, right: ast.expr) -> bool:
    """Return True if ``in`` searches within a string, e.g. ``'float' in dtype``. Expressions do not support this."""
    return isinstance(left, ast.Constant) and isinstance(left.value, str) and isinstance(right, ast.Name)


def _choices(node: ast.expr) -> ast.expr:
    """Return the right side of ``in`` as a tuple; other expressions unchanged.

    A ``range()`` with constant bounds is replaced by its first 100 numbers.
    """
    match node:
        case ast.List(elts=values) | ast.Set(elts=values):
            return ast.Tuple(elts=values, ctx=ast.Load())
        case ast.Constant() | ast.Name():
            return ast.Tuple(elts=[node], ctx=ast.Load())
        case ast.Call(func=ast.Name(id="range"), args=ends) if all(isinstance(end, ast.Constant) for end in ends):
            numbers = range(*(end.value for end in ends if isinstance(end, ast.Constant)))  # type: ignore[arg-type]
            return ast.Tuple(elts=[ast.Constant(value=each) for each in numbers[:100]], ctx=ast.Load())
    return node
