"""The Python syntax that expressions may contain, and limits on their size."""

import ast
import math

from evo.errors import InvalidInput
from evo.space.expression.arithmetic import INTEGER_LIMIT
from evo.space.expression.evaluation import BINARY, COMPARISONS, FOLDS, MEMBERSHIPS, UNARY
from evo.text.suggestion import unknown

MAX_TEXT = 1_000
MAX_LITERAL = 100
MAX_DEPTH = 50
MAX_INLINED_DEPTH = 120
MAX_NODES = 5_000

FUNCTIONS = frozenset({*FOLDS, "abs"})
"""Functions that an expression may call. Tunables, fields and derived values must not have these names."""


def admit(node: ast.expr, field: str) -> None:
    """Refuse syntax that `Evaluation` does not support."""
    match node:
        case ast.Constant(value=bool()) | ast.Name():
            return
        case ast.Constant(value=str() as text) if len(text) <= MAX_LITERAL:
            return
        case ast.Constant(value=int() as number) if number < INTEGER_LIMIT:
            return
        case ast.Constant(value=float() as number) if math.isfinite(number):
            return
        case ast.BinOp(op=op) if type(op) in BINARY:
            operands = [node.left, node.right]
        case ast.UnaryOp(op=op) if isinstance(op, UNARY):
            operands = [node.operand]
        case ast.BoolOp(values=operands):
            pass
        case ast.IfExp():
            operands = [node.test, node.body, node.orelse]
        case ast.Compare():
            operands = [node.left, *_comparands(node, field)]
        case ast.Call():
            operands = _arguments(node, field)
        case _:
            raise InvalidInput(field, f"`{ast.unparse(node)}` is not available in an expression; {_remedy(node)}")
    for operand in operands:
        admit(operand, field)


def _remedy(node: ast.expr) -> str:
    # A rewrite would be a guess: some authors write `^` for a power, but in C and Python it means exclusive or.
    if isinstance(node, ast.Constant) and node.value is None:
        return "no field or tunable can have the value None; remove the comparison"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitXor):
        return "write `a != b` for the exclusive or of two truth values, or `a ** b` for a power"
    return available()


def check_depth(tree: ast.expr, field: str, depth_limit: int = MAX_DEPTH) -> None:
    """Refuse trees nested deeper than `depth_limit`, which would exceed the recursion limit."""
    level: list[ast.AST] = [tree]
    for _ in range(depth_limit):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    raise InvalidInput(field, f"is nested more than {depth_limit} levels deep; split it, e.g. into derived values")


def _comparands(node: ast.Compare, field: str) -> list[ast.expr]:
    """Check a comparison and return its right operands. ``in`` and ``not in`` may only be the last of a chain."""
    *inner, last = node.ops
    admitted = {*COMPARISONS, *MEMBERSHIPS} if isinstance(node.comparators[-1], ast.Tuple) else {*COMPARISONS}
    if not admitted.issuperset({type(last)}) or not COMPARISONS.keys() >= {type(op) for op in inner}:
        raise InvalidInput(field, f"`{ast.unparse(node)}` is not available; write `a <= b < c`, or `x in (1, 2)`")
    if type(last) in MEMBERSHIPS and isinstance(node.comparators[-1], ast.Tuple):
        return [*node.comparators[:-1], *node.comparators[-1].elts]
    return node.comparators


def _arguments(node: ast.Call, field: str) -> list[ast.expr]:
    name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
    if name == "sizeof":
        raise InvalidInput(
            field, f"`{ast.unparse(node)}` is not available; write the number of bytes, e.g. 4 for a float"
        )
    if name not in FUNCTIONS or not isinstance(node.func, ast.Name):
        raise InvalidInput(field, f"`{ast.unparse(node)}`: {unknown(name, FUNCTIONS, 'functions')}")
    arguments = {"abs": (1, 1), "ceil_div": (2, 2)}.get(name, (2, MAX_NODES))
    if node.keywords or not arguments[0] <= len(node.args) <= arguments[1]:
        wanted = {(1, 1): "1 argument, e.g. `abs(a)`", (2, 2): f"2 arguments, e.g. `{name}(a, b)`"}
        takes = wanted.get(arguments, f"at least 2 arguments, e.g. `{name}(a, b)`")
        raise InvalidInput(field, f"`{ast.unparse(node)}`: {name} takes {takes}")
    return node.args


def available() -> str:
    """Describe the allowed syntax for error messages."""
    functions = ", ".join(sorted(FUNCTIONS))
    return f"use numbers, strings, names, + - * / // % **, comparisons, and/or/not, `a if c else b`, {functions}"
