"""Replaces names in syntax trees with other trees or with values."""

import ast
from collections.abc import Mapping
from typing import Any

from evo.space.expression.evaluation import free_names
from evo.space.expression.scalar import Unsure, reading
from evo.trial import Value


def terms(tree: ast.expr, sizes: Mapping[str, int]) -> int:
    """Return the number of terms that a tree would have after some names were replaced by expressions.

    Args:
        sizes: number of terms of each replacing expression, by the replaced name.
    """
    return sum(sizes.get(node.id, 1) if isinstance(node, ast.Name) else 1 for node in ast.walk(tree))


def replaced(node: Any, trees: Mapping[str, ast.expr]) -> Any:
    """Return a copy of a tree in which names are replaced with the trees in `trees`.

    The copy shares the inserted trees, and the names that are not replaced, with the arguments.

    Args:
        node: a syntax tree, or the value of a field of a syntax tree.
    """
    if isinstance(node, ast.Name):
        return trees.get(node.id, node)
    if isinstance(node, list):
        return [replaced(each, trees) for each in node]
    if not isinstance(node, ast.expr):
        return node
    return type(node)(**{name: replaced(value, trees) for name, value in ast.iter_fields(node)})


class Binder(ast.NodeTransformer):
    """Replaces names with constants, and parts of the tree that are then constant with their values."""

    def __init__(self, constants: Mapping[str, Value]) -> None:
        self.constants = constants

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Call):
            node.args = [self.visit(each) for each in node.args]
        else:
            node = self.generic_visit(node)
        return self._folded(node) if isinstance(node, ast.expr) else node

    def _folded(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.IfExp) and isinstance(node.test, ast.Constant):
            return node.body if node.test.value else node.orelse
        if isinstance(node, ast.Constant | ast.Tuple) or not self.constants.keys() >= free_names(node):
            return node
        try:
            return ast.Constant(value=reading(node)(self.constants))
        except Unsure:  # the evaluation reports the fault
            return node
