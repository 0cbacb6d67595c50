"""The order in which tunables join when valid points are built up, and what each constraint leaves on the way."""

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
"""Value ranks: one row a point, one column a tunable."""

MOST_TABULATED = 16_384
"""Combinations of values up to which the truth of a constraint is looked up in a table instead of evaluated."""


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
    """One tunable joins.

    Attributes:
        position: of the tunable in declared order.
        completed: constraints whose names are all bound now: what breaks them goes.
        watched: constraints that name the tunable but wait for others: what can no longer satisfy them goes.
    """

    position: int
    tunable: Tunable
    completed: Sequence[Constraint]
    watched: Sequence[Constraint]

    @cached_property
    def effort(self) -> int:
        """Terms to evaluate for each point that has this tunable joined."""
        return 1 + sum(constraint.expression.size for constraint in (*self.completed, *self.watched))


@dataclass(frozen=True, kw_only=True)
class Table:
    """The truth of one constraint for each combination of its tunables' values.

    Attributes:
        places: of its tunables, in joining order.
        holds: by their ranks, one axis a tunable.
    """

    places: tuple[int, ...]
    holds: Mask


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The steps, fixed by tunables and constraints alone."""

    steps: tuple[Step, ...]
    constants: Mapping[str, Value]

    @classmethod
    def of(
        cls, tunables: Sequence[Tunable], constraints: Sequence[Constraint], constants: Mapping[str, Value]
    ) -> "Plan":
        """Cheapest constraint first, i.e. the one whose missing tunables multiply the points least.

        Tunables no constraint names come last: they multiply the points and prune nothing.
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
        """How many values each tunable has, in declared order."""
        steps = sorted(self.steps, key=lambda step: step.position)
        return [len(step.tunable.values) for step in steps]

    def accepts(self, rows: Indices) -> Mask:
        """Which of these complete points, columns in declared order, satisfy every constraint."""
        columns = (rows[:, step.position] for step in self.steps)
        numbered = Partial(columns=(*columns, np.arange(len(rows), dtype=np.int32)), rows=len(rows))
        accepted = np.zeros(len(rows), dtype=np.bool_)
        accepted[self.surviving(numbered, range(len(self.steps))).columns[-1]] = True
        return accepted

    def declared(self, partial: Partial) -> Indices:
        """Complete points as rows in the declared order of the tunables."""
        indices = np.empty((partial.rows, len(self.steps)), dtype=np.int32)
        for step, column in zip(self.steps, partial.columns, strict=True):
            indices[:, step.position] = column
        return indices

    def joined(self, partial: Partial, level: int) -> Partial:
        """Every point with every value of the next tunable."""
        choices = len(self.steps[level].tunable.values)
        columns = tuple(np.repeat(column, choices) for column in partial.columns)
        new = np.tile(np.arange(choices, dtype=np.int32), partial.rows)
        return Partial(columns=(*columns, new), rows=partial.rows * choices)

    def pruned(self, partial: Partial, level: int) -> Partial:
        """What is left of points that have just been joined: they satisfy what is decided and may satisfy the rest."""
        for constraint in self.steps[level].completed:
            partial = self.satisfying(constraint, partial)
        for constraint in self.steps[level].watched:
            partial = self.hopeful(constraint, partial)
        return partial

    def surviving(self, partial: Partial, levels: Iterable[int]) -> Partial:
        """What the constraints completed at these steps leave."""
        for level in levels:
            for constraint in self.steps[level].completed:
                partial = self.satisfying(constraint, partial)
        return partial

    def satisfying(self, constraint: Constraint, partial: Partial) -> Partial:
        """The points that satisfy a constraint whose names are all bound."""
        table = self._table(constraint)
        if table is None:
            return partial.where(constraint.expression.truth(self._bound(constraint, partial)))
        return partial.where(table.holds[tuple(partial.columns[place] for place in table.places)])

    def _table(self, constraint: Constraint) -> "Table | None":
        """The truth of a constraint by ranks; None where it has too many combinations or cannot be evaluated for all.

        A constraint that divides by zero for some values may be one that others guard.
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
        """By identity of the constraint; filled as constraints are met."""
        return {}

    def hopeful(self, constraint: Constraint, partial: Partial) -> Partial:
        """The points that could still satisfy a constraint, whatever its unbound names become."""
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
