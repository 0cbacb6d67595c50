"""Finds parts of valid expressions whose meaning is probably not what the author intended."""

import ast
import copy
from typing import Any

import numpy as np

from evo.errors import InvalidInput
from evo.space.expression.arithmetic import EXPONENT_LIMIT, INTEGER_LIMIT
from evo.space.expression.evaluation import Evaluation, Undefined, free_names
from evo.space.expression.functions import form
from evo.space.expression.spelling import pasted


class _Spread(ast.NodeTransformer):
    """Rewrites ``x == 1 or 2`` and ``x == (1 or 2)`` as ``x in (1, 2)``, which the author probably means.

    Attributes:
        found: True if a number or string without a comparison (here ``2``) was found.
        unclear: True if it is unclear with which name a found value should be compared.
    """

    found = unclear = False

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        self.generic_visit(node)
        asked = next((place for place, each in enumerate(node.values) if not _is_value(each)), 0)
        node.values.insert(0, node.values.pop(asked))  # so that `1 or x == 2` is read like `x == 2 or 1`
        wanted, member = (ast.Eq, ast.In) if isinstance(node.op, ast.Or) else (ast.NotEq, ast.NotIn)
        kept: list[ast.expr] = []
        for each in node.values:
            if not _is_value(each):
                kept.append(each)
                continue
            self.found = True
            match kept[-1] if kept else None:
                case ast.Compare(left=left, ops=[op], comparators=[first]) if isinstance(op, wanted):
                    choices = ast.Tuple(elts=[first, each], ctx=ast.Load())
                    kept[-1] = ast.Compare(left=left, ops=[member()], comparators=[choices])
                case ast.Compare(left=left, ops=[op], comparators=[ast.Tuple(elts=elts)]) if isinstance(op, member):
                    choices = ast.Tuple(elts=[*elts, each], ctx=ast.Load())
                    kept[-1] = ast.Compare(left=left, ops=[op], comparators=[choices])
                case ast.Compare(left=ast.Name() as name) | (ast.Name() as name):
                    kept.append(ast.Compare(left=name, ops=[ast.Eq()], comparators=[each]))
                case _:
                    self.unclear = True
                    kept.append(each)
        return ast.BoolOp(op=node.op, values=kept) if len(kept) > 1 else kept[0]

    def visit_Compare(self, node: ast.Compare) -> Any:
        match node:
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as op], comparators=[ast.BoolOp(values=values)]):
                if all(map(_is_value, values)):
                    self.found = True
                    member = ast.In() if isinstance(op, ast.Eq) else ast.NotIn()
                    return ast.Compare(left=left, ops=[member], comparators=[ast.Tuple(elts=values, ctx=ast.Load())])
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> Any:
        return node  # the operands in ``max(x or 1, 2)`` are numbers, not conditions

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        return node


def value_alone(tree: ast.expr) -> str | None:
    """Return an error text with a correction if a number or string is an operand of ``and`` or ``or``; else None."""
    meant = compared(tree)
    if meant is tree:
        return None
    remedy = "compare it as well" if meant is None else f"write {pasted(ast.unparse(meant))}"
    return f"a number or string as an operand of `and` or `or` counts as a truth value; {remedy}"


def compared(tree: ast.expr) -> ast.expr | None:
    """Return the condition that the author probably means, if a number or string is an operand of ``and`` or ``or``.

    Such an operand is read as one more value for the left side of the comparison before it: ``x == 1 or 2`` becomes
    ``x in (1, 2)``, and ``x > 4 or 2`` becomes ``x > 4 or x == 2``. The result is None if no comparison of a name
    precedes the operand. A condition without such operands is returned unchanged.
    """
    if not any(isinstance(node, ast.BoolOp) and any(map(_is_value, node.values)) for node in ast.walk(tree)):
        return tree
    spread = _Spread()
    meant = spread.visit(copy.deepcopy(tree))
    if not spread.found:
        return tree
    return None if spread.unclear else ast.fix_missing_locations(meant)


class _WholeDivision(ast.NodeTransformer):
    """Replaces ``/`` with ``//`` in ``a / b * b``. In C, the integer division rounds, so the result is a multiple of b.

    Attributes:
        found: True if such a term was found.
    """

    found = False

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        match node:
            case ast.BinOp(op=ast.Mult(), left=ast.BinOp(op=ast.Div(), right=by) as quotient, right=other):
                pass
            case ast.BinOp(op=ast.Mult(), left=other, right=ast.BinOp(op=ast.Div(), right=by) as quotient):
                pass
            case _:
                return node
        if ast.dump(by) == ast.dump(other):
            quotient.op, self.found = ast.FloorDiv(), True
        return node


def of_c(tree: ast.expr) -> str | None:
    """Return an error text with a correction if C would give an expression a different meaning; else None.

    This concerns terms that cancel out in Python but round in C (``a / b * b``), and chains of comparisons. Operations
    on constants that have no value, such as ``2 ** 64`` and ``N // 0``, are refused as well.
    """
    defined, fault = with_defined_constants(tree)
    if fault:
        return f"{fault} {pasted(ast.unparse(defined))}"
    nodes = list(ast.walk(tree))
    if any(isinstance(node, ast.Div) for node in nodes):
        division = _WholeDivision()
        whole = division.visit(copy.deepcopy(tree))
        if division.found:
            return f"`/` does not round, so division and multiplication cancel out; write {pasted(ast.unparse(whole))}"
    for node in nodes:
        if not isinstance(node, ast.Compare) or len(node.ops) == 1:
            continue
        if (reason := _constant_link(node)) is not None:
            return reason
        equal = [isinstance(op, ast.Eq | ast.NotEq) for op in node.ops]
        if any(equal) and not all(equal):
            return _unchained(node)
    return None


def _constant_link(chain: ast.Compare) -> str | None:
    """Return an error text with a correction if a chain of comparisons compares two constants; else None.

    Examples are ``a == 0 == True`` and ``a != 1 != 2``.
    """
    sides = [chain.left, *chain.comparators]
    for place, op in enumerate(chain.ops[1:], start=1):
        left, right = sides[place : place + 2]
        if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
            link = ast.unparse(ast.Compare(left=left, ops=[op], comparators=[right]))
            return f"`{link}` compares two constants; {_without_link(chain, right.value)}"
    return None


def _without_link(chain: ast.Compare, last: object) -> str:
    member = {ast.Eq: ast.In, ast.NotEq: ast.NotIn}.get(type(chain.ops[0]))
    if last is True and len(chain.ops) == 2 and isinstance(chain.ops[1], ast.Eq):
        meant = ast.Compare(left=chain.left, ops=chain.ops[:1], comparators=chain.comparators[:1])
    elif member is not None and {type(op) for op in chain.ops} == {type(chain.ops[0])}:
        choices = ast.Tuple(elts=chain.comparators, ctx=ast.Load())
        meant = ast.Compare(left=chain.left, ops=[member()], comparators=[choices])
    else:
        return "compare each with a tunable, joined by `and`"
    return f"write {pasted(ast.unparse(meant))}"


def _unchained(chain: ast.Compare) -> str:
    """Return an error text that states what a chain such as ``a > 4 == b > 2`` means in C and in Python."""
    links: list[ast.expr] = []
    sides: list[ast.expr] = [chain.left]
    signs: list[ast.cmpop] = []
    left = chain.left
    for op, right in zip(chain.ops, chain.comparators, strict=True):
        links.append(ast.Compare(left=left, ops=[op], comparators=[right]))
        if isinstance(op, ast.Eq | ast.NotEq):
            signs.append(op)
            sides.append(right)
        else:
            sides[-1] = ast.Compare(left=sides[-1], ops=[op], comparators=[right])
        left = right
    here, there = ast.BoolOp(op=ast.And(), values=links), sides[0]
    for sign, side in zip(signs, sides[1:], strict=True):
        there = ast.Compare(left=there, ops=[sign], comparators=[side])
    reason = "a chain of comparisons means something else in C"
    return f"{reason}; write {pasted(ast.unparse(there))} or {pasted(ast.unparse(here))}"


class _Defined(ast.NodeTransformer):
    """Replaces operations that have no value because of their constants.

    These are powers and products that are too large, exponents above `EXPONENT_LIMIT`, and divisions by zero.

    Attributes:
        reason: what is wrong with the first such operation; empty if there is none.
    """

    reason = ""

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        right = _constant(node.right)
        if isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod) and right == 0:
            return self._divided(node, "{0} " + _SIGNS[type(node.op)] + " 2", node.left)
        if isinstance(node.op, ast.Pow | ast.Mult) and _too_large(node):
            self._found(f"`{ast.unparse(node)}` is too large, because numbers must be below 2**62; write")
            return ast.Constant(value=INTEGER_LIMIT - 1)
        if isinstance(node.op, ast.Pow) and right is not None and right > EXPONENT_LIMIT and free_names(node.left):
            self._found(f"`{ast.unparse(node)}` needs an exponent from 0 to {EXPONENT_LIMIT}; write e.g.")
            return form("{0} ** 2", node.left)
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id="ceil_div"), args=[left, right]) if _constant(right) == 0:
                return self._divided(node, "ceil_div({0}, 2)", left)
        return node

    def _divided(self, node: ast.expr, written: str, left: ast.expr) -> ast.expr:
        self._found(f"`{ast.unparse(node)}` divides by zero; divide by another number: write e.g.")
        return form(written, left)

    def _found(self, reason: str) -> None:
        self.reason = self.reason or reason


def _may_lack_value(node: ast.AST) -> bool:
    """Return True if a node may be an operation that has no value because of its constants, such as ``x / 0``.

    The test is fast and has no false negatives. It avoids copying and visiting trees that need no change.
    """
    match node:
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            return not free_names(left) and not free_names(right)
        case ast.BinOp(op=ast.Div() | ast.FloorDiv() | ast.Mod(), right=ast.Constant(value=value)):
            return value == 0
        case ast.BinOp(op=ast.Div() | ast.FloorDiv() | ast.Mod() | ast.Pow(), right=right):
            return not free_names(right)
        case ast.Call(func=ast.Name(id="ceil_div"), args=[_, right]):
            return not free_names(right)
    return False


_SIGNS = {ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"}


def _constant(node: ast.expr) -> Any:
    """Return the number or bool to which an expression without names evaluates.

    The result is None if the expression contains names, has no value, or is a string.
    """
    if free_names(node):
        return None
    try:
        with np.errstate(all="ignore"):
            value = Evaluation(field="", environment={}).value(node, np.asarray(True)).item()
    except InvalidInput:
        return None
    return None if isinstance(value, str) else value


def _too_large(node: ast.BinOp) -> bool:
    """Return True if a power or product of constants has no value only because it is too large."""
    left, right = _constant(node.left), _constant(node.right)
    return None not in (left, right) and left > 0 and right > 0 and _constant(node) is None


def with_defined_constants(tree: ast.expr) -> tuple[ast.expr, str]:
    """Replace operations on constants that have no value, such as ``1 / 0``.

    Returns:
        The new tree, and the error text of the first replaced operation; an empty text if all operations have a value.
    """
    if not any(_may_lack_value(node) for node in ast.walk(tree)):
        return tree, ""
    defined = _Defined()
    return defined.visit(copy.deepcopy(tree)), defined.reason


def guarded(tree: ast.expr, fault: Undefined) -> ast.expr | None:
    """Return the tree with `fault.node` replaced or guarded by a condition, so that it has a value; None if impossible.

    In the result, a comparison with a division by zero is false or, with the sign ``!=``, true.
    """
    if fault.meant is None:
        return None

    class Guard(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            divides = isinstance(fault.meant, ast.IfExp) and any(each is fault.node for each in ast.walk(node))
            if isinstance(node, ast.Compare) and divides and isinstance(fault.meant, ast.IfExp):
                differs = isinstance(node.ops[0], ast.NotEq)
                return form("not {0} or {1}" if differs else "{0} and {1}", fault.meant.test, node)
            return fault.meant if node is fault.node else super().visit(node)

    return Guard().visit(tree)  # type: ignore[no-any-return]


def _is_value(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not isinstance(node.value, bool)
