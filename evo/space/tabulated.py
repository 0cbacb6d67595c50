"""Evaluates an expression faster: parts that depend on only a few tunables are looked up in tables.

For each proposal, the strategies check the constraints of thousands of configs, a few hundred at a time. The
expressions of large families, e.g. of the registers that a kernel needs, have hundreds of operations. Most of these
belong to parts that depend on a few tunables and thus have only a few thousand possible values.
"""

import ast
import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evo.errors import InvalidInput
from evo.space.expression import Expression
from evo.space.expression.arithmetic import Array, Mask
from evo.space.expression.evaluation import free_names
from evo.space.tunable import Tunable

MOST_ENTRIES = 1 << 16
"""Maximum number of entries of a table. Larger tables take longer to compute than they save in a search."""

FEWEST_TERMS = 3
"""Minimum number of terms of a part that is looked up."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Values of a part of an expression, for all combinations of values of its tunables.

    Attributes:
        names: names of the tunables.
        shape: number of values of each of these tunables.
        values: value of each combination. The combinations are ordered by the value indices, the last tunable fastest.
    """

    names: Sequence[str]
    shape: tuple[int, ...]
    values: Array

    @classmethod
    def of(cls, part: Expression, tunables: Sequence[Tunable]) -> "Table":
        """Compute the table of an expression that depends on exactly the given tunables.

        Raises:
            InvalidInput: the expression has no value for some combinations.
        """
        shape = tuple(len(each.values) for each in tunables)
        indices = np.unravel_index(np.arange(math.prod(shape)), shape)
        values = part.evaluate_arrays(
            {each.name: each.array[index] for each, index in zip(tunables, indices, strict=True)}
        )
        return cls(names=[each.name for each in tunables], shape=shape, values=np.ascontiguousarray(values))

    def look_up(self, indices: Mapping[str, npt.NDArray[np.integer]]) -> Array:
        """Return the values for value indices of the tunables, given by name."""
        found: Array = self.values[np.ravel_multi_index([indices[name] for name in self.names], self.shape)]
        return found


class Tabulated:
    """An expression of tunables. Its parts that depend on only a few tunables are looked up in tables.

    Args:
        tunables: the tunables. Every name of the expression must be the name of a tunable.
    """

    def __init__(self, expression: Expression, tunables: Sequence[Tunable]) -> None:
        self._expression = expression
        self._tunables = {each.name: each for each in tunables if each.name in expression.names}
        self._tables: dict[str, Table] = {}
        self._names: dict[str, str | None] = {}
        tree = self._replaced(expression.tree)
        self._remaining = Expression(text=expression.text, field=expression.field, names=free_names(tree), tree=tree)

    def truth(self, indices: Mapping[str, npt.NDArray[np.integer]]) -> Mask:
        """Return the truth value of the expression for value indices of its tunables, given by name.

        Raises:
            InvalidInput: see `Expression.truth`.
        """
        environment = {
            name: self._tables[name].look_up(indices)
            if name in self._tables
            else self._tunables[name].array[indices[name]]
            for name in self._remaining.names
        }
        try:
            return np.asarray(self._remaining.truth(environment))
        except InvalidInput:  # the error of the complete expression names the faulty part
            values = {name: each.array[indices[name]] for name, each in self._tunables.items()}
            return np.asarray(self._expression.truth(values))

    def _replaced(self, node: ast.expr) -> ast.expr:
        """Return a copy of a tree in which the largest possible parts are replaced by names of tables."""
        if isinstance(node, ast.Name | ast.Constant | ast.Tuple):
            return node
        if (name := self._table_of(node)) is not None:
            return ast.Name(id=name)
        parts = {field: self._replaced_part(value) for field, value in ast.iter_fields(node) if field != "func"}
        copied: ast.expr = copy.copy(node)
        vars(copied).update(parts)
        return copied

    def _replaced_part(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._replaced_part(each) for each in value]
        return self._replaced(value) if isinstance(value, ast.expr) else value

    def _table_of(self, node: ast.expr) -> str | None:
        """Return the name of the table with the values of a part. None if the part cannot or need not be looked up."""
        names = sorted(free_names(node))
        entries = math.prod(len(self._tunables[name].values) for name in names)
        if (
            not names
            or entries > MOST_ENTRIES
            or sum(isinstance(each, ast.expr) for each in ast.walk(node)) < FEWEST_TERMS
        ):
            return None
        text = ast.dump(node)
        if text not in self._names:
            self._names[text] = self._computed(node, names)
        return self._names[text]

    def _computed(self, node: ast.expr, names: Sequence[str]) -> str | None:
        """Compute the table of a part, and return its name; None if the part has no value for some combinations."""
        part = Expression(text="", field=self._expression.field, names=frozenset(names), tree=node)
        name = f"table {len(self._tables)}"
        try:
            self._tables[name] = Table.of(part, [self._tunables[each] for each in names])
        except InvalidInput:
            return None
        return name
