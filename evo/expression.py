"""Expressions of a family document: Python's syntax and meaning, a whitelist of it, over scalars or NumPy arrays.

Parsed once into a checked tree; nothing is ever compiled or handed to ``eval``. Available: numbers, texts, True and
False; names; ``+ - * / // % **``; comparisons (chained ones too), ``in`` and ``not in`` a tuple; ``and or not``;
``a if c else b``; and the functions `FUNCTIONS`. ``and``, ``or``, conditional expressions and chained comparisons
protect their later operands element by element, as they do in Python: ``N != 0 and S % N == 0`` never divides by zero.
"""

import ast
import copy
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from dataclasses import field as attribute
from functools import cached_property
from typing import Any

import numpy as np

from evo import arithmetic
from evo.errors import InvalidInput
from evo.evaluation import BINARY, COMPARISONS, FOLDS, MEMBERSHIPS, UNARY, Environment, Evaluation, free_names
from evo.scalar import SCALARS, Reading, Unsure, reading
from evo.suggestion import unknown
from evo.trial import Value

MAX_TEXT = 1_000
MAX_LITERAL = 100
MAX_DEPTH = 50
MAX_INLINED_DEPTH = 120
MAX_NODES = 5_000

FUNCTIONS = frozenset({*FOLDS, "abs"})
"""Functions an expression may call; no tunable, field or derived value may take one of these names."""


@dataclass(frozen=True, kw_only=True)
class Expression:
    """One checked expression.

    Attributes:
        text: as the author wrote it.
        field: where it stands, e.g. ``cpu.constraints[0].expression``; named by every error.
        names: the free names; all of them must be in the environment.
    """

    text: str
    field: str
    names: frozenset[str]
    tree: ast.expr = attribute(repr=False, compare=False)

    @classmethod
    def parse(cls, text: str, field: str) -> "Expression":
        """Check `text` against the whitelist.

        Raises:
            InvalidInput: not an expression, not on the whitelist, or too long or deep; names the offending piece.
        """
        if not isinstance(text, str):
            raise InvalidInput(field, f"must be an expression in quotes, not {text!r}")
        if len(text) > MAX_TEXT:
            raise InvalidInput(field, f"is {len(text)} characters long, of at most {MAX_TEXT}: name parts of it first")
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except SyntaxError as error:
            raise InvalidInput(field, f"`{text}` is not an expression in Python's syntax: {error.msg}") from error
        except (ValueError, RecursionError, MemoryError) as error:
            raise InvalidInput(field, f"is not an expression in Python's syntax: {error}") from error
        _measure(tree, field)
        _admit(tree, field)
        return cls(text=text, field=field, names=free_names(tree), tree=tree)

    @cached_property
    def size(self) -> int:
        """Its terms: what an evaluation costs for each element."""
        return _size(self.tree, {})

    def check_names(self, scope: Collection[str], meaning: str = "") -> "Expression":
        """This expression, if `scope` has all its names.

        Args:
            meaning: what the scope consists of, for the message, e.g. ``problem fields``.

        Raises:
            InvalidInput: names the unknown one, near misses, and what there is.
        """
        for name in sorted(self.names.difference(scope)):
            raise InvalidInput(self.field, f"`{self.text}`: {unknown(name, scope, meaning or 'names')}")
        return self

    def inline(self, definitions: Mapping[str, "Expression"]) -> "Expression":
        """The same expression with each defined name replaced by its definition; the text stays as written.

        Raises:
            InvalidInput: what comes out is too large to evaluate.
        """
        if not self.names.intersection(definitions):
            return self
        trees = {name: definition.tree for name, definition in definitions.items()}
        size = _size(self.tree, {name: _size(tree, {}) for name, tree in trees.items()})
        if size > MAX_NODES:
            raise InvalidInput(self.field, f"`{self.text}` grows to {size} terms, of at most {MAX_NODES}: simplify it")
        tree = _Inliner(trees).visit(copy.deepcopy(self.tree))
        _measure(tree, self.field, depth_limit=MAX_INLINED_DEPTH)
        return Expression(text=self.text, field=self.field, names=free_names(tree), tree=tree)

    def bind(self, constants: Mapping[str, Value]) -> "Expression":
        """The same expression with each constant in place of its name, and worked out as far as that goes."""
        if not self.names.intersection(constants):
            return self
        tree = _Binder(constants).visit(copy.deepcopy(self.tree))
        return Expression(text=self.text, field=self.field, names=free_names(tree), tree=tree)

    def evaluate(self, environment: Environment) -> Any:
        """Its value: a Python scalar when every name is one, else an array.

        Raises:
            InvalidInput: an unknown name, text where a number is needed, a division by zero, or a result that is no
                finite number of less than 63 bits; names the piece and the values it happened for.
        """
        if all(type(environment.get(name)) in SCALARS for name in self.names):
            try:
                return self._reading(environment)
            except Unsure:
                pass
        return self.evaluate_arrays(environment)

    def evaluate_arrays(self, environment: Environment) -> Any:
        """As `evaluate`, by the one walk that knows arrays and faults."""
        self.check_names(environment.keys())
        lengths = [np.shape(environment[name]) for name in self.names]
        with np.errstate(all="ignore"):
            result = Evaluation(field=self.field, environment=environment).value(self.tree, np.asarray(True))
        return np.broadcast_to(result, max(lengths, default=())) if any(lengths) else result.item()

    @cached_property
    def _reading(self) -> Reading:
        return reading(self.tree)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_reading"}  # functions are not pickled

    def truth(self, environment: Environment) -> Any:
        """Its truth value: a bool, or an array of them; raises as `evaluate` does."""
        value = self.evaluate(environment)
        return bool(value) if type(value) in SCALARS else arithmetic.truth(value)

    def number(self, environment: Mapping[str, Value]) -> int | float:
        """Its value over scalars, which must be a number; raises as `evaluate` does."""
        result = self.evaluate(environment)
        if isinstance(result, bool) or not isinstance(result, int | float):
            raise InvalidInput(self.field, f"`{self.text}` is {result!r} here, but must be a number")
        return result

    def whole(self, environment: Mapping[str, Value]) -> int:
        """Its value over scalars, which must be a whole number; raises as `evaluate` does."""
        result = self.number(environment)
        if result != int(result):
            raise InvalidInput(self.field, f"`{self.text}` is {result!r} here, but must be whole: use // to divide")
        return int(result)


def _measure(tree: ast.expr, field: str, depth_limit: int = MAX_DEPTH) -> None:
    level: list[ast.AST] = [tree]
    for _ in range(depth_limit):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    raise InvalidInput(field, f"is nested more than {depth_limit} levels deep: name parts of it first")


def _size(tree: ast.expr, sizes: Mapping[str, int]) -> int:
    return sum(sizes.get(node.id, 1) if isinstance(node, ast.Name) else 1 for node in ast.walk(tree))


class _Inliner(ast.NodeTransformer):
    def __init__(self, trees: Mapping[str, ast.expr]) -> None:
        self.trees = trees

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.trees.get(node.id, node)


class _Binder(ast.NodeTransformer):
    def __init__(self, constants: Mapping[str, Value]) -> None:
        self.constants = constants

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Call):
            node.args = [self.visit(each) for each in node.args]
        else:
            node = self.generic_visit(node)
        return self._worked_out(node) if isinstance(node, ast.expr) else node

    def _worked_out(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.IfExp) and isinstance(node.test, ast.Constant):
            return node.body if node.test.value else node.orelse
        if isinstance(node, ast.Constant | ast.Tuple) or not self.constants.keys() >= free_names(node):
            return node
        try:
            return ast.Constant(value=reading(node)(self.constants))
        except Unsure:  # a fault: told where it matters
            return node


def _admit(node: ast.expr, field: str) -> None:
    """Refuse whatever is not on the whitelist; what passes here, `Evaluation` can evaluate."""
    match node:
        case ast.Constant(value=bool()) | ast.Name():
            return
        case ast.Constant(value=str() as text) if len(text) <= MAX_LITERAL:
            return
        case ast.Constant(value=int() as number) if number < arithmetic.INTEGER_LIMIT:
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
            raise InvalidInput(field, f"`{ast.unparse(node)}` is not available in an expression: {_available()}")
    for operand in operands:
        _admit(operand, field)


def _comparands(node: ast.Compare, field: str) -> list[ast.expr]:
    """What stands right of the first operator; a membership in a tuple can only come last."""
    *inner, last = node.ops
    admitted = {*COMPARISONS, *MEMBERSHIPS} if isinstance(node.comparators[-1], ast.Tuple) else {*COMPARISONS}
    if not admitted.issuperset({type(last)}) or not COMPARISONS.keys() >= {type(op) for op in inner}:
        raise InvalidInput(field, f"`{ast.unparse(node)}` is not available: write `a <= b < c`, or `x in (1, 2)`")
    if type(last) in MEMBERSHIPS and isinstance(node.comparators[-1], ast.Tuple):
        return [*node.comparators[:-1], *node.comparators[-1].elts]
    return node.comparators


def _arguments(node: ast.Call, field: str) -> list[ast.expr]:
    name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
    if name not in FUNCTIONS or not isinstance(node.func, ast.Name):
        raise InvalidInput(field, f"`{ast.unparse(node)}`: {unknown(name, FUNCTIONS, 'functions')}")
    arguments = {"abs": (1, 1), "ceil_div": (2, 2)}.get(name, (2, MAX_NODES))
    if node.keywords or not arguments[0] <= len(node.args) <= arguments[1]:
        wanted = f"{arguments[0]}" if arguments[0] == arguments[1] else "at least 2"
        raise InvalidInput(field, f"`{ast.unparse(node)}`: {name} takes {wanted} plain arguments")
    return node.args


def _available() -> str:
    functions = ", ".join(sorted(FUNCTIONS))
    return f"use numbers, texts, names, + - * / // % **, comparisons, and/or/not, `a if c else b`, {functions}"
