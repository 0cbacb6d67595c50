"""Decides by interval arithmetic whether a constraint can still hold when only some of its names have values.

Each name without a value (a free name) is represented by the range of its possible values. The result "can hold" may be
wrong, but "cannot hold" is always right. A part of the constraint without known bounds, such as a string or a division
by a range that contains zero, is assumed to have any value.

Source: Moore, Kearfott and Cloud, Introduction to Interval Analysis, SIAM (2009), chapters 2 and 5.
"""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from evo.space.expression import Expression
from evo.space.expression.arithmetic import Mask
from evo.space.expression.evaluation import Environment

EXACT = float(1 << 53)
"""Magnitude below which float64 represents every whole number exactly. Bounds beyond it are widened."""


@dataclass(frozen=True)
class Range:
    """Lower and upper bounds of an array's elements.

    For known values with a magnitude below `EXACT`, `low` and `high` are the same array object (`is_fixed`).
    """

    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]

    @classmethod
    def of(cls, low: Any, high: Any) -> "Range":
        """Return the range from `low` to `high`. Bounds with a magnitude above `EXACT` are widened."""
        low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
        return cls(
            np.where(low > -EXACT, np.minimum(low, EXACT), -np.inf),
            np.where(high < EXACT, np.maximum(high, -EXACT), np.inf),
        )

    @classmethod
    def fixed(cls, value: Any) -> "Range":
        """Return the range of a known value."""
        value = np.asarray(value, dtype=np.float64)
        return cls(value, value) if np.all(np.abs(value) < EXACT) else cls.of(value, value)

    @property
    def is_fixed(self) -> bool:
        return self.low is self.high


ANYTHING = Range(np.asarray(-np.inf), np.asarray(np.inf))


@dataclass(frozen=True)
class Verdict:
    """Possible truth values of a condition, as two masks with one element for each combination of known values.

    Attributes:
        true: True where the condition can be true.
        false: True where the condition can be false. Where both masks are True, the condition is undecided.
    """

    true: Mask
    false: Mask


def can_hold(expression: Expression, bound: Environment, free: Mapping[str, tuple[float, float]]) -> Mask:
    """Return a mask of the elements of the bound arrays for which the expression can still be true.

    Args:
        bound: values of the bound names: scalars, or arrays of equal length, as in `Expression.evaluate`.
        free: smallest and largest value of each numeric free name. A name in neither mapping can have any value.
    """
    with np.errstate(all="ignore"):
        return np.asarray(_Relaxation(bound, free).verdict(expression.tree).true)


class _Relaxation:
    def __init__(self, bound: Environment, free: Mapping[str, tuple[float, float]]) -> None:
        self.bound = bound
        self.free = free

    def verdict(self, node: ast.expr) -> Verdict:
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.verdict(operand)
                return Verdict(inner.false, inner.true)
            case ast.BoolOp(op=op, values=values):
                return reduce(_both if isinstance(op, ast.And) else _either, map(self.verdict, values))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                condition, then, other = self.verdict(test), self.verdict(body), self.verdict(orelse)
                return _either(_both(condition, then), _both(Verdict(condition.false, condition.true), other))
            case ast.Compare():
                return self._chain(node)
        value = self.range(node)
        return Verdict((value.low != 0) | (value.high != 0), (value.low <= 0) & (value.high >= 0))

    def range(self, node: ast.expr) -> Range:  # noqa: PLR0911
        match node:
            case ast.Constant(value=bool() | int() | float() as value):
                return Range.fixed(value)
            case ast.Name(id=name):
                return self._range_of(name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return _negate(self.range(operand))
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.range(operand)
            case ast.BinOp(left=left, op=op, right=right):
                return OPERATIONS[type(op)](self.range(left), self.range(right))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._chosen(self.verdict(test), body, orelse)
            case ast.Call(func=ast.Name(id=name), args=arguments) if name in FUNCTIONS:
                return reduce(FUNCTIONS[name], [self.range(argument) for argument in arguments])
            case ast.Compare() | ast.UnaryOp():
                verdict = self.verdict(node)
                return Range.of(~verdict.false, verdict.true)
        return ANYTHING

    def _range_of(self, name: str) -> Range:
        if name not in self.bound:
            return Range.of(*self.free[name]) if name in self.free else ANYTHING
        value = np.asarray(self.bound[name])
        return ANYTHING if value.dtype.kind == "U" else Range.fixed(value)

    def _chosen(self, condition: Verdict, body: ast.expr, orelse: ast.expr) -> Range:
        """Return the range of a conditional expression, which covers both branches if the condition is undecided."""
        if not np.any(condition.false):
            return self.range(body)
        if not np.any(condition.true):
            return self.range(orelse)
        then, other = self.range(body), self.range(orelse)
        return Range(
            np.where(condition.true, np.where(condition.false, np.minimum(then.low, other.low), then.low), other.low),
            np.where(
                condition.true, np.where(condition.false, np.maximum(then.high, other.high), then.high), other.high
            ),
        )

    def _text(self, node: ast.expr) -> npt.NDArray[np.str_] | None:
        """Return the strings that are the node's value; None if the value is a number, unknown, or computed."""
        match node:
            case ast.Constant(value=str() as value):
                return np.asarray(value)
            case ast.Name(id=name) if name in self.bound:
                bound = np.asarray(self.bound[name])
                return bound if bound.dtype.kind == "U" else None
        return None

    def _chain(self, node: ast.Compare) -> Verdict:
        verdicts = []
        left = node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(right, ast.Tuple):
                none = Verdict(np.asarray(False), np.asarray(True))
                found = reduce(_either, (self._compare(ast.Eq(), left, choice) for choice in right.elts), none)
                verdicts.append(Verdict(found.false, found.true) if isinstance(op, ast.NotIn) else found)
            else:
                verdicts.append(self._compare(op, left, right))
            left = right
        return reduce(_both, verdicts)

    def _compare(self, op: ast.cmpop, left_node: ast.expr, right_node: ast.expr) -> Verdict:
        texts = self._text(left_node), self._text(right_node)
        if isinstance(op, ast.Eq | ast.NotEq) and texts[0] is not None and texts[1] is not None:
            equal = np.asarray(texts[0] == texts[1])
            return Verdict(equal, ~equal) if isinstance(op, ast.Eq) else Verdict(~equal, equal)
        left, right = self.range(left_node), self.range(right_node)
        match op:
            case ast.Lt():
                return Verdict(left.low < right.high, left.high >= right.low)
            case ast.LtE():
                return Verdict(left.low <= right.high, left.high > right.low)
            case ast.Gt():
                return Verdict(left.high > right.low, left.low <= right.high)
            case ast.GtE():
                return Verdict(left.high >= right.low, left.low < right.high)
        meet = (left.low <= right.high) & (right.low <= left.high)
        fixed = (left.low == left.high) & (right.low == right.high) & (left.low == right.low)
        return Verdict(meet, ~fixed) if isinstance(op, ast.Eq) else Verdict(~fixed, meet)


def _both(a: Verdict, b: Verdict) -> Verdict:
    return Verdict(a.true & b.true, a.false | b.false)


def _either(a: Verdict, b: Verdict) -> Verdict:
    return Verdict(a.true | b.true, a.false & b.false)


def _negate(a: Range) -> Range:
    return Range.fixed(-a.low) if a.is_fixed else Range(-a.high, -a.low)


def _add(a: Range, b: Range) -> Range:
    if a.is_fixed and b.is_fixed:
        return Range.fixed(a.low + b.low)
    return Range.of(a.low + b.low, a.high + b.high)


def _subtract(a: Range, b: Range) -> Range:
    if a.is_fixed and b.is_fixed:
        return Range.fixed(a.low - b.low)
    return Range.of(a.low - b.high, a.high - b.low)


def _corners(operation: Callable[[Any, Any], Any], a: Range, b: Range) -> Range:
    """Return the range of an operation that is monotone in each operand. Its extremes are at the operands' bounds."""
    ends = [(each.low,) if each.is_fixed else (each.low, each.high) for each in (a, b)]
    corners = [operation(x, y) for x in ends[0] for y in ends[1]]
    if len(corners) == 1 and np.all(np.isfinite(corners[0])):
        return Range.fixed(corners[0])
    unclear = reduce(np.logical_or, [np.isnan(corner) for corner in corners])
    return Range.of(
        np.where(unclear, -np.inf, reduce(np.fmin, corners)), np.where(unclear, np.inf, reduce(np.fmax, corners))
    )


def _where(certain: Mask, a: Range) -> Range:
    return a if np.all(certain) else Range(np.where(certain, a.low, -np.inf), np.where(certain, a.high, np.inf))


def _quotient(operation: Callable[[Any, Any], Any], a: Range, b: Range) -> Range:
    """Return the range of a division. It is unbounded if the divisor can be zero."""
    return _where((b.low > 0) | (b.high < 0), _corners(operation, a, b))


def _remainder(a: Range, b: Range) -> Range:
    fixed = (a.low == a.high) & (b.low == b.high) & (b.low != 0)
    exact = np.remainder(a.low, np.where(fixed, b.low, 1))
    wide = _where(b.low > 0, Range.of(np.zeros_like(a.low + b.low), b.high + np.zeros_like(a.low)))
    return Range.of(np.where(fixed, exact, wide.low), np.where(fixed, exact, wide.high))


def _power(a: Range, b: Range) -> Range:
    return _where((a.low >= 1) & (b.low >= 0), _corners(np.power, a, b))


def _ends(choose: Callable[[Any, Any], Any], a: Range, b: Range) -> Range:
    return Range(choose(a.low, b.low), choose(a.high, b.high))


def _ceil_div(a: Range, b: Range) -> Range:
    return _negate(_quotient(np.floor_divide, _negate(a), b))


OPERATIONS: Mapping[type[ast.operator], Callable[[Range, Range], Range]] = {
    ast.Add: _add,
    ast.Sub: _subtract,
    ast.Mult: partial(_corners, np.multiply),
    ast.Div: partial(_quotient, np.divide),
    ast.FloorDiv: partial(_quotient, np.floor_divide),
    ast.Mod: _remainder,
    ast.Pow: _power,
}
FUNCTIONS: Mapping[str, Callable[[Range, Range], Range]] = {
    "min": partial(_ends, np.minimum),
    "max": partial(_ends, np.maximum),
    "ceil_div": _ceil_div,
}
