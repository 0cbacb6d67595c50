"""Plan of an enumeration: the order in which tunables are joined, and the points that are removed at each step.

Joining a tunable combines every point so far with every value of the tunable (`evo.space.enumeration`).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from functools import partial as partially
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from evo.space.bounds import can_hold
from evo.space.expression.arithmetic import Mask
from evo.space.tabulated import Tabulated
from evo.space.tunable import Constraint, Tunable
from evo.trial import Value

Indices = npt.NDArray[np.int32]
"""Value indices, one row per point and one column per tunable. A value index is the position of a value among the
values of its tunable.
"""

ValueIndices = Sequence[npt.NDArray[np.integer]]
"""Value indices by column: one array per tunable."""

MOST_REMEMBERED = 1 << 20
"""Maximum number of combinations of values for which the results of a constraint are cached."""

TRIED_FIRST, TRIED_FROM = 1 << 9, 1 << 12
"""If there are at least `TRIED_FROM` points, the bounds of a constraint are first computed for `TRIED_FIRST` points. If
none of these is removed, the remaining points are not checked.
"""


@dataclass(frozen=True, kw_only=True)
class Partial:
    """Partial points: the value indices of the tunables that were joined so far.

    Attributes:
        columns: value indices of each joined tunable, in joining order, each of shape (rows,).
        rows: number of points.
    """

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


class Chosen:
    """Value indices of some points, by column. A column is selected only when it is read.

    Args:
        columns: value indices of all points, shape (tunables, points).
        rows: the points to select.
    """

    def __init__(self, columns: Indices, rows: npt.NDArray[np.integer]) -> None:
        self._columns = columns
        self._rows = rows

    def __len__(self) -> int:
        return len(self._columns)

    def __getitem__(self, index: int) -> Indices:
        selected: Indices = self._columns[index][self._rows]
        return selected


Columns: TypeAlias = Sequence[Indices] | Chosen
"""Value indices of points by column, in the order in which the tunables are joined."""

START = Partial(columns=(), rows=1)

UNKNOWN = -1


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step of an enumeration. It combines each partial point with each value of one tunable.

    Attributes:
        position: index of the tunable in declared order.
        completed: constraints whose last tunable in joining order is this one. Points that violate one are removed. The
            first step also completes the constraints that contain no tunable.
        watched: constraints over this tunable and at least one tunable of a later step. Points that can no longer
            satisfy one are removed.
    """

    position: int
    tunable: Tunable
    completed: Sequence[Constraint]
    watched: Sequence[Constraint]

    @cached_property
    def effort(self) -> int:
        """Number of terms that this step evaluates for each point."""
        return 1 + sum(constraint.expression.size for constraint in (*self.completed, *self.watched))


class CachedFunction:
    """Cache of a function of points that depends on only a few tunables.

    Results are stored by the values of these tunables, because millions of points may have only a few thousand
    combinations of them. Threads may share an instance: they compute equal results for a combination.

    Args:
        places: indices, in joining order, of the tunables on which the function depends.
        shape: number of values of each of these tunables.
        function: takes the value indices, one array per tunable, and returns a mask.
    """

    def __init__(
        self,
        places: Sequence[int],
        shape: tuple[int, ...],
        function: Callable[[Sequence[npt.NDArray[np.integer]]], Mask],
    ) -> None:
        self._places = places
        self._shape = shape
        self._function = function
        self._known = np.full(math.prod(shape), UNKNOWN, dtype=np.int8)

    def of(self, columns: Columns) -> Mask:
        """Return the function's result for each point, from the cache if possible."""
        codes = np.ravel_multi_index([columns[index] for index in self._places], self._shape)
        answers = self._known[codes]
        if answers.min(initial=0) == UNKNOWN:
            new = np.zeros(len(self._known), dtype=np.bool_)
            new[codes[answers == UNKNOWN]] = True
            self._learn(np.flatnonzero(new))
            answers = self._known[codes]
        return np.asarray(answers == 1)

    def _learn(self, codes: npt.NDArray[np.intp]) -> None:
        self._known[codes] = self._function(np.unravel_index(codes, self._shape))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Steps that join tunables one by one: each combines the points so far with the values of one more tunable.

    Attributes:
        constants: values of the other names in constraints, e.g. problem fields, by name.
    """

    steps: tuple[Step, ...]
    constants: Mapping[str, Value]

    @classmethod
    def of(
        cls, tunables: Sequence[Tunable], constraints: Sequence[Constraint], constants: Mapping[str, Value]
    ) -> "Plan":
        """Return a plan that joins tunables constraint by constraint.

        The next constraint is always the one whose remaining tunables have the fewest combinations of values. Tunables
        without a constraint come last, because they multiply the number of points and remove none.
        """
        positions = {tunable.name: position for position, tunable in enumerate(tunables)}
        needs = [{positions[name] for name in each.expression.names & positions.keys()} for each in constraints]
        order = _order([len(tunable.values) for tunable in tunables], [need for need in needs if need])
        index_of = {position: index for index, position in enumerate(order)}
        last = [max((index_of[position] for position in need), default=0) for need in needs]
        steps = [
            Step(
                position=position,
                tunable=tunables[position],
                completed=[each for each, end in zip(constraints, last, strict=True) if end == index],
                watched=[
                    each
                    for each, need, end in zip(constraints, needs, last, strict=True)
                    if position in need and index < end
                ],
            )
            for index, position in enumerate(order)
        ]
        return cls(steps=tuple(steps), constants=constants)

    @cached_property
    def _constraints(self) -> list[Constraint]:
        """All constraints, in the order of the steps that complete them."""
        return [constraint for step in self.steps for constraint in step.completed]

    @cached_property
    def sizes(self) -> list[int]:
        """Number of values of each tunable, in declared order."""
        steps = sorted(self.steps, key=lambda step: step.position)
        return [len(step.tunable.values) for step in steps]

    def accepts(self, rows: Indices) -> Mask:
        """Return a mask of the complete points that satisfy all constraints.

        Args:
            rows: value indices, columns in declared order.
        """
        columns = np.ascontiguousarray(rows[:, [step.position for step in self.steps]].T)
        left = np.arange(len(rows))
        for constraint in self._constraints:
            satisfied = self._answered(constraint, Chosen(columns, left))
            if not satisfied.all():
                left = left[np.broadcast_to(satisfied, left.shape)]
        accepted = np.zeros(len(rows), dtype=np.bool_)
        accepted[left] = True
        return accepted

    def declared(self, partial: Partial) -> Indices:
        """Return complete points as rows of value indices, columns in the declared order of the tunables."""
        indices = np.empty((partial.rows, len(self.steps)), dtype=np.int32)
        for step, column in zip(self.steps, partial.columns, strict=True):
            indices[:, step.position] = column
        return indices

    def joined(self, partial: Partial, level: int) -> Partial:
        """Combine every point with every value of the tunable that step `level` joins."""
        choices = len(self.steps[level].tunable.values)
        columns = tuple(np.repeat(column, choices) for column in partial.columns)
        new = np.tile(np.arange(choices, dtype=np.int32), partial.rows)
        return Partial(columns=(*columns, new), rows=partial.rows * choices)

    def pruned(self, partial: Partial, level: int) -> Partial:
        """Remove points that violate a completed constraint of step `level`, or cannot satisfy a watched constraint."""
        for constraint in self.steps[level].completed:
            partial = self.satisfying(constraint, partial)
        for constraint in self.steps[level].watched:
            partial = self.hopeful(constraint, partial)
        return partial

    def surviving(self, partial: Partial, levels: Iterable[int]) -> Partial:
        """Return the points that satisfy the constraints completed at the steps `levels`."""
        for level in levels:
            for constraint in self.steps[level].completed:
                partial = self.satisfying(constraint, partial)
        return partial

    def satisfying(self, constraint: Constraint, partial: Partial) -> Partial:
        """Return the points that satisfy a constraint whose names are all bound."""
        return partial.where(self._answered(constraint, partial.columns))

    def hopeful(self, constraint: Constraint, partial: Partial) -> Partial:
        """Remove points that can no longer satisfy a constraint, whatever values its unbound names get.

        To save time, a sample of the points is checked first if there are at least `TRIED_FROM` points. If all points
        of the sample can still satisfy the constraint, no point is removed here. The points that violate the constraint
        are then removed by later steps.
        """
        if partial.rows >= TRIED_FROM:
            tried = partial.take(np.linspace(0, partial.rows - 1, TRIED_FIRST).astype(np.intp))
            if self._answered(constraint, tried.columns).all():
                return partial
        return partial.where(self._answered(constraint, partial.columns))

    def _answered(self, constraint: Constraint, columns: Columns) -> Mask:
        """Return a mask of the points that satisfy the constraint or, while names are unbound, can still satisfy it."""
        indices = self._places(constraint)
        if indices and indices[-1] >= len(columns):
            indices = tuple(index for index in indices if index < len(columns))
        key = (id(constraint), len(indices))
        if key not in self._answers:
            self._answers[key] = self._remembering(constraint, indices)
        answers = self._answers[key]
        if answers is not None:
            return answers.of(columns)
        if len(indices) == len(self._places(constraint)) > 0:
            names = (self.steps[index].tunable.name for index in indices)
            return self._tabulated(constraint).truth(dict(zip(names, map(columns.__getitem__, indices), strict=True)))
        return self._truth(constraint, indices, [columns[index] for index in indices])

    def _remembering(self, constraint: Constraint, indices: Sequence[int]) -> CachedFunction | None:
        """Return an empty cache for a constraint, or None if its results are not cached.

        Results are not cached if `indices` is empty, or if the values of the tunables have more than `MOST_REMEMBERED`
        combinations.

        Args:
            indices: indices of the steps that join those tunables of the constraint that have values so far.
        """
        shape = tuple(len(self.steps[index].tunable.values) for index in indices)
        if not shape or math.prod(shape) > MOST_REMEMBERED:
            return None
        return CachedFunction(indices, shape, partially(self._truth, constraint, indices))

    def _truth(self, constraint: Constraint, indices: Sequence[int], columns: ValueIndices) -> Mask:
        names = constraint.expression.names
        bound: dict[str, object] = {name: value for name, value in self.constants.items() if name in names}
        for index, column in zip(indices, columns, strict=True):
            tunable = self.steps[index].tunable
            bound[tunable.name] = tunable.array[column]
        if len(indices) == len(self._places(constraint)):
            return np.asarray(constraint.expression.truth(bound))
        return can_hold(constraint.expression, bound, self._ranges)

    def _tabulated(self, constraint: Constraint) -> Tabulated:
        if id(constraint) not in self._tables:
            bound = constraint.expression.bind(self.constants)
            self._tables[id(constraint)] = Tabulated(bound, [step.tunable for step in self.steps])
        return self._tables[id(constraint)]

    def _places(self, constraint: Constraint) -> tuple[int, ...]:
        """Return the indices of the steps that add the constraint's tunables to the points."""
        if id(constraint) not in self._joined_at:
            names = constraint.expression.names
            indices = [index for index, step in enumerate(self.steps) if step.tunable.name in names]
            self._joined_at[id(constraint)] = tuple(indices)
        return self._joined_at[id(constraint)]

    @cached_property
    def _joined_at(self) -> dict[int, tuple[int, ...]]:
        """Cached results of `_places`, by the `id` of the constraint."""
        return {}

    @cached_property
    def _tables(self) -> dict[int, Tabulated]:
        """Constraints with tables, created on demand, by the `id` of the constraint."""
        return {}

    @cached_property
    def _answers(self) -> dict[tuple[int, int], CachedFunction | None]:
        """Caches, created on demand, by the `id` of the cached constraint and its number of bound tunables."""
        return {}

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
