"""The order in which tunables are joined to build up valid points, and the pruning at each step."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from evo.errors import InvalidInput
from evo.expression.arithmetic import Mask
from evo.space.bounds import can_hold
from evo.space.constraint import Constraint
from evo.space.tunable import Tunable
from evo.trial import Value

Indices = npt.NDArray[np.int32]
"""Value ranks: one row per point, one column per tunable."""

MOST_TABULATED = 16_384
"""Constraints with at most this many value combinations are tabulated instead of evaluated for each point."""


@dataclass(frozen=True, kw_only=True)
class Partial:
    """Points on the tunables joined so far: a column of ranks for each, in joining order."""

    columns: tuple[Indices, ...]
    rows: int

    def block(self, start: int, size: int) -> "Partial":
        columns = tuple(column[start : start + size] for column in self.columns)
        return Partial(columns=columns, rows=min(size, self.rows - start))

    def where(self, mask: Mask) -> "Partial":
        rows = np.flatnonzero(np.broadcast_to(mask, self.rows))
        return self if len(rows) == self.rows else self.take(rows)

    def take(self, rows: npt.NDArray[np.integer]) -> "Partial":
        return Partial(columns=tuple(column[rows] for column in self.columns), rows=len(rows))


START = Partial(columns=(), rows=1)


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step that joins one tunable.

    Attributes:
        position: index of the tunable in declared order.
        completed: constraints whose names are all bound after this step; points that break them are removed.
        watched: constraints that name the tunable and others still unbound; points that can no longer satisfy them are
            removed.
    """

    position: int
    tunable: Tunable
    completed: Sequence[Constraint]
    watched: Sequence[Constraint]

    @cached_property
    def effort(self) -> int:
        """Number of terms to evaluate for each point after this step."""
        return 1 + sum(constraint.expression.size for constraint in (*self.completed, *self.watched))


@dataclass(frozen=True, kw_only=True)
class Table:
    """Truth values of one constraint for each combination of its tunables' values.

    Attributes:
        places: positions of its tunables, in joining order.
        holds: truth by ranks, one axis per tunable.
    """

    places: tuple[int, ...]
    holds: Mask


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The steps, determined by tunables and constraints alone."""

    steps: tuple[Step, ...]
    constants: Mapping[str, Value]

    @classmethod
    def of(
        cls, tunables: Sequence[Tunable], constraints: Sequence[Constraint], constants: Mapping[str, Value]
    ) -> "Plan":
        """Order the steps: first the constraint whose missing tunables multiply the points least.

        Tunables that no constraint names come last: they multiply the points and prune nothing.
        """
        positions = {tunable.name: position for position, tunable in enumerate(tunables)}
        needs = [{positions[name] for name in each.expression.names & positions.keys()} for each in constraints]
        order = _order([len(tunable.values) for tunable in tunables], [need for need in needs if need])
        places = {position: place for place, position in enumerate(order)}
        last = [max((places[position] for position in need), default=0) for need in needs]
        steps = [
            Step(
                position=position,
                tunable=tunables[position],
                completed=[each for each, end in zip(constraints, last, strict=True) if end == place],
                watched=[
                    each
                    for each, need, end in zip(constraints, needs, last, strict=True)
                    if position in need and place < end
                ],
            )
            for place, position in enumerate(order)
        ]
        return cls(steps=tuple(steps), constants=constants)

    @cached_property
    def sizes(self) -> list[int]:
        """Number of values of each tunable, in declared order."""
        steps = sorted(self.steps, key=lambda step: step.position)
        return [len(step.tunable.values) for step in steps]

    def accepts(self, rows: Indices) -> Mask:
        """Return which of these complete points, columns in declared order, satisfy every constraint."""
        columns = (rows[:, step.position] for step in self.steps)
        numbered = Partial(columns=(*columns, np.arange(len(rows), dtype=np.int32)), rows=len(rows))
        accepted = np.zeros(len(rows), dtype=np.bool_)
        accepted[self.surviving(numbered, range(len(self.steps))).columns[-1]] = True
        return accepted

    def declared(self, partial: Partial) -> Indices:
        """Return complete points as rows in the declared order of the tunables."""
        indices = np.empty((partial.rows, len(self.steps)), dtype=np.int32)
        for step, column in zip(self.steps, partial.columns, strict=True):
            indices[:, step.position] = column
        return indices

    def joined(self, partial: Partial, level: int) -> Partial:
        """Combine every point with every value of the next tunable."""
        choices = len(self.steps[level].tunable.values)
        columns = tuple(np.repeat(column, choices) for column in partial.columns)
        new = np.tile(np.arange(choices, dtype=np.int32), partial.rows)
        return Partial(columns=(*columns, new), rows=partial.rows * choices)

    def pruned(self, partial: Partial, level: int) -> Partial:
        """Remove points just joined that break a decided constraint, or can no longer satisfy an undecided one."""
        for constraint in self.steps[level].completed:
            partial = self.satisfying(constraint, partial)
        for constraint in self.steps[level].watched:
            partial = self.hopeful(constraint, partial)
        return partial

    def surviving(self, partial: Partial, levels: Iterable[int]) -> Partial:
        """Return the points that satisfy the constraints completed at these steps."""
        for level in levels:
            for constraint in self.steps[level].completed:
                partial = self.satisfying(constraint, partial)
        return partial

    def satisfying(self, constraint: Constraint, partial: Partial) -> Partial:
        """Return the points that satisfy a constraint whose names are all bound."""
        table = self._table(constraint)
        if table is None:
            return partial.where(constraint.expression.truth(self._bound(constraint, partial)))
        return partial.where(table.holds[tuple(partial.columns[place] for place in table.places)])

    def _table(self, constraint: Constraint) -> "Table | None":
        """Return the truth table of a constraint; None if it has too many combinations or some cannot be evaluated.

        For example, a constraint may divide by zero for values that another constraint excludes.
        """
        if id(constraint) not in self._tables:
            self._tables[id(constraint)] = self._tabulated(constraint)
        return self._tables[id(constraint)]

    def _tabulated(self, constraint: Constraint) -> "Table | None":
        names = constraint.expression.names
        steps = {place: step.tunable for place, step in enumerate(self.steps) if step.tunable.name in names}
        shape = tuple(len(tunable.values) for tunable in steps.values())
        if not shape or math.prod(shape) > MOST_TABULATED:
            return None
        ranks = np.indices(shape).reshape(len(shape), -1)
        values = {each.name: each.array[column] for each, column in zip(steps.values(), ranks, strict=True)}
        constants = {name: value for name, value in self.constants.items() if name in names}
        try:
            truth = constraint.expression.truth(constants | values)
        except InvalidInput:
            return None
        return Table(places=tuple(steps), holds=np.broadcast_to(truth, math.prod(shape)).reshape(shape))

    @cached_property
    def _tables(self) -> "dict[int, Table | None]":
        """Truth tables by identity of the constraint, filled on demand."""
        return {}

    def hopeful(self, constraint: Constraint, partial: Partial) -> Partial:
        """Return the points that could still satisfy a constraint for some values of its unbound names."""
        return partial.where(can_hold(constraint.expression, self._bound(constraint, partial), self._ranges))

    def _bound(self, constraint: Constraint, partial: Partial) -> dict[str, object]:
        names = constraint.expression.names
        bound: dict[str, object] = {name: value for name, value in self.constants.items() if name in names}
        for step, column in zip(self.steps, partial.columns, strict=False):
            if step.tunable.name in names:
                bound[step.tunable.name] = step.tunable.array[column]
        return bound

    @cached_property
    def _ranges(self) -> dict[str, tuple[float, float]]:
        tunables = [step.tunable for step in self.steps if step.tunable.array.dtype.kind != "U"]
        return {each.name: (float(each.array.min()), float(each.array.max())) for each in tunables}


def _order(sizes: Sequence[int], needs: Sequence[set[int]]) -> list[int]:
    order: list[int] = []
    waiting = list(needs)
    while waiting:
        cheapest = min(waiting, key=lambda need: math.prod(sizes[position] for position in need.difference(order)))
        order += sorted(cheapest.difference(order), key=lambda position: (sizes[position], position))
        waiting = [need for need in waiting if not need.issubset(order)]
    return order + [position for position in range(len(sizes)) if position not in order]
