"""Evaluates an expression's tree over scalars or arrays.

With arrays, some elements may not need an operand: for example, the right operand of an ``and`` is not needed where the
left operand is false. A mask of the needed elements is passed along, and only these elements can cause errors.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from evo.errors import InvalidInput
from evo.space.expression import arithmetic
from evo.space.expression.arithmetic import DIVIDES_BY_ZERO, Array, Mask, Operation, OperationError

Environment: TypeAlias = Mapping[str, Any]
"""Values by name: a scalar (`Value`) or a one-dimensional array. All arrays have the same length."""

BINARY: Mapping[type[ast.operator], Operation] = {
    ast.Add: arithmetic.add,
    ast.Sub: arithmetic.subtract,
    ast.Mult: arithmetic.multiply,
    ast.Div: arithmetic.divide,
    ast.FloorDiv: arithmetic.floor_divide,
    ast.Mod: arithmetic.remainder,
    ast.Pow: arithmetic.power,
}
COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
MEMBERSHIPS = (ast.In, ast.NotIn)
UNARY = (ast.UAdd, ast.USub, ast.Not)
FOLDS: Mapping[str, Operation] = {
    "min": arithmetic.minimum,
    "max": arithmetic.maximum,
    "gcd": arithmetic.gcd,
    "ceil_div": arithmetic.ceil_div,
}


def free_names(tree: ast.expr) -> frozenset[str]:
    functions = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in functions)


class Undefined(InvalidInput):
    """Raised if a part of an expression has no value, e.g. because it divides by zero.

    Attributes:
        node: the part that has no value.
        meant: the expression that the author probably meant instead of `node`, and that has a value; None if unknown.
    """

    def __init__(self, field: str, reason: str, *, node: ast.expr, meant: ast.expr | None) -> None:
        super().__init__(field, reason)
        self.node, self.meant = node, meant


def _defined(node: ast.expr, fault: OperationError) -> ast.expr | None:
    """Return a replacement for `node` that does not cause the fault; None if none is known."""
    match node:
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.UnaryOp(op=ast.USub(), operand=exponent)):
            return ast.BinOp(
                left=ast.Constant(value=1), op=ast.Div(), right=ast.BinOp(left=left, op=ast.Pow(), right=exponent)
            )
        case ast.BinOp(right=divisor) | ast.Call(args=[_, divisor]) if str(fault) == DIVIDES_BY_ZERO:
            return ast.IfExp(test=divisor, body=node, orelse=ast.Constant(value=0)) if free_names(divisor) else None
        case ast.BinOp(left=left, op=ast.Pow(), right=exponent) if str(fault) == arithmetic.NEEDS_POSITIVE_BASE:
            positive = ast.Call(func=ast.Name(id="max"), args=[ast.Constant(value=0), left], keywords=[])
            return ast.BinOp(left=positive, op=ast.Pow(), right=exponent)
        case ast.BinOp(left=left, op=op, right=right) if str(fault) == arithmetic.TOO_LARGE:
            inexact = ast.BinOp(left=ast.Constant(value=1.0), op=ast.Mult(), right=left)
            return ast.BinOp(left=inexact, op=op, right=right)
    return None


def _remedy(node: ast.expr, fault: OperationError, environment: Environment, meant: ast.expr | None) -> str:
    """Suggest a correction of `node`, whose value is undefined, as the last part of an error message.

    The result is empty if no correction is known.

    Args:
        meant: the replacement that `_defined` returned for `node`; None if none is known.
    """
    if isinstance(meant, ast.IfExp):
        return f"; write `({ast.unparse(meant)})`, with the value for this case after `else`"
    if meant is not None:
        return f"; write `{ast.unparse(meant)}`"
    if str(fault) == DIVIDES_BY_ZERO:
        return "; divide by another number"
    texts = [name for name in sorted(free_names(node)) if np.asarray(environment[name]).dtype.kind == "U"]
    if str(fault) in arithmetic.OF_TEXTS and texts:
        value = str(np.ravel(environment[texts[0]])[0])
        return f"; compare a string with a string, e.g. `{texts[0]} == {value!r}`"
    return ""


class Evaluation:
    """Evaluates a checked tree with given values of its names."""

    def __init__(self, *, field: str, environment: Environment) -> None:
        self.field = field
        self.environment = environment

    def value(self, node: ast.expr, active: Mask) -> Array:
        """Return the node's value. Only the elements in the mask `active` are defined.

        Raises:
            Undefined: the value of an element in the mask is undefined, e.g. because of a division by zero.
        """
        try:
            return self._value(node, active)
        except OperationError as fault:
            where, meant = self._values_at(node, fault), _defined(node, fault)
            reason = f"`{ast.unparse(node)}` {fault}{where}{_remedy(node, fault, self.environment, meant)}"
            raise Undefined(self.field, reason, node=node, meant=meant) from fault

    def _value(self, node: ast.expr, active: Mask) -> Array:  # noqa: PLR0911
        match node:
            case ast.Constant(value=value):
                return np.asarray(value)
            case ast.Name(id=name):
                return arithmetic.column(self.environment[name])
            case ast.UnaryOp(op=op, operand=operand):
                return self._unary(op, self.value(operand, active))
            case ast.BinOp(left=left, op=op, right=right):
                return BINARY[type(op)](self.value(left, active), self.value(right, active), active)
            case ast.BoolOp(op=op, values=values):
                return self._boolean(isinstance(op, ast.And), values, active)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                condition = arithmetic.truth(self.value(test, active))
                return self._choose(condition, body, orelse, active)
            case ast.Compare():
                return self._chain(node, active)
            case ast.Call(func=ast.Name(id="abs"), args=[argument]):
                return arithmetic.absolute(self.value(argument, active))
            case ast.Call(func=ast.Name(id=name), args=arguments):
                operation = FOLDS[name]
                return reduce(lambda a, b: operation(a, b, active), [self.value(each, active) for each in arguments])
            case _:
                raise OperationError("must be one value, not a list of values")

    def _unary(self, op: ast.unaryop, operand: Array) -> Array:
        if isinstance(op, ast.Not):
            return ~arithmetic.truth(operand)
        return arithmetic.negate(operand) if isinstance(op, ast.USub) else arithmetic.numbers(operand)[0]

    def _boolean(self, conjunction: bool, values: list[ast.expr], active: Mask) -> Array:
        result = self.value(values[0], active)
        for node in values[1:]:
            undecided = arithmetic.truth(result) == conjunction
            if not np.any(undecided & active):
                break
            result = arithmetic.select(undecided, self.value(node, active & undecided), result)
        return result

    def _choose(self, condition: Mask, body: ast.expr, orelse: ast.expr, active: Mask) -> Array:
        if not np.any(condition & active):
            return self.value(orelse, active)
        if not np.any(~condition & active):
            return self.value(body, active)
        return arithmetic.select(
            condition, self.value(body, active & condition), self.value(orelse, active & ~condition)
        )

    def _chain(self, node: ast.Compare, active: Mask) -> Mask:
        holds = np.asarray(True)
        left = self.value(node.left, active)
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            wanted = active & holds
            if not np.any(wanted):
                break
            if isinstance(comparator, ast.Tuple):
                found = self._member(left, comparator, wanted)
                return holds & (~found if isinstance(op, ast.NotIn) else found)
            right = self.value(comparator, wanted)
            holds = holds & arithmetic.compare(COMPARISONS[type(op)], left, right)
            left = right
        return holds

    def _member(self, value: Array, choices: ast.Tuple, active: Mask) -> Mask:
        matches = [arithmetic.compare(operator.eq, value, self.value(choice, active)) for choice in choices.elts]
        return reduce(np.logical_or, matches, np.asarray(False))

    def _values_at(self, node: ast.expr, fault: OperationError) -> str:
        """Return the part of an error message that states the values of the node's names, e.g. `` for BLOCK_M = 0``.

        The values are those of the first faulty element.
        """
        names = sorted(free_names(node))
        if fault.elements is None or not names:
            return ""
        first = int(np.argmax(fault.elements)) if fault.elements.ndim else 0
        values = {name: np.atleast_1d(np.asarray(self.environment[name])) for name in names}
        return " for " + ", ".join(f"{name} = {value[min(first, len(value) - 1)]}" for name, value in values.items())
