"""Substitution of names in trees."""

import ast
from collections.abc import Mapping
from typing import Any

from evo.space.expression.evaluation import free_names
from evo.space.expression.scalar import Unsure, reading
from evo.trial import Value


def terms(tree: ast.expr, sizes: Mapping[str, int]) -> int:
    """Return the number of terms after substitution, given the number of terms of each name."""
    return sum(sizes.get(node.id, 1) if isinstance(node, ast.Name) else 1 for node in ast.walk(tree))


class Inliner(ast.NodeTransformer):
    """Replaces names by trees."""

    def __init__(self, trees: Mapping[str, ast.expr]) -> None:
        self.trees = trees

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.trees.get(node.id, node)


class Binder(ast.NodeTransformer):
    """Replaces names by constants, and folds constant parts."""

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
        except Unsure:  # a fault: reported when it is evaluated
            return node
