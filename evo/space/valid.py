"""Valid points of a space, either enumerated in memory or drawn at random on demand."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from evo.space.emptiness import EmptySpace
from evo.space.enumeration import Lister, Listing, balanced, drawn, pool
from evo.space.expression.arithmetic import INTEGER_LIMIT, Mask
from evo.space.plan import START, Indices, Partial, Plan

Distances = Sequence[npt.NDArray[np.float64]]
"""For each tunable in declared order, the distance of each of its values from a given point."""

TIE = 1e-9
"""Distances that differ by less than this are equal. A distance is a sum of fractions, whose rounding error depends on
the order of the terms.
"""

MAX_CHANGES = 128
BEAM_WIDTH = 512


@dataclass(frozen=True, kw_only=True)
class Nearest:
    """Searches for the valid point nearest to a given point.

    The search first checks points that differ in one or two tunables, because the nearest valid point is almost always
    among them. If a point that differs in three tunables could be nearer, a beam search builds points step by step. It
    keeps the `BEAM_WIDTH` nearest partial points. The found point may not be the nearest if the beam is too narrow, or
    if the tunables together have more than `MAX_CHANGES` values other than those of the given point. Only the nearest
    `MAX_CHANGES` of these values are tried, alone and in pairs.

    Attributes:
        plan: order in which the beam search joins tunables.
        distances: for each tunable, the distance of each of its values from the value of the given point.
        rng: chooses among equally near points.
    """

    plan: Plan
    distances: Distances
    rng: np.random.Generator

    def find(self) -> Indices | None:
        """Return a nearest valid row of value indices in declared order; None if none was found."""
        found = self._within_two_changes()
        bound = np.inf if found is None else float(total_distance(self.distances, found[None, :])[0])
        steps = sorted(float(each[each > 0].min()) for each in self.distances if np.any(each > 0))
        if len(steps) < 3 or sum(steps[:3]) >= bound - TIE:
            return found
        nearer = self._built_up(bound)
        return found if nearer is None else nearer

    def _within_two_changes(self) -> Indices | None:
        own = np.array([int(np.argmin(each)) for each in self.distances], dtype=np.int32)
        changes = [
            (float(cost), index, value)
            for index, each in enumerate(self.distances)
            for value, cost in enumerate(each)
            if value != own[index]
        ]
        costs, indices, values = (np.array(column) for column in zip(*sorted(changes)[:MAX_CHANGES], strict=True))
        single = np.repeat(own[None, :], len(costs), axis=0)
        single[np.arange(len(costs)), indices] = values
        nearest = self._cheapest_valid(single, costs)
        first, second = np.triu_indices(len(costs), 1)
        worth = indices[first] != indices[second]
        if nearest is not None:
            worth &= costs[first] + costs[second] < total_distance(self.distances, nearest[None, :])[0] - TIE
        first, second = first[worth], second[worth]
        double = single[first]
        double[np.arange(len(first)), indices[second]] = values[second]
        nearer = self._cheapest_valid(double, costs[first] + costs[second])
        return nearest if nearer is None else nearer

    def _cheapest_valid(self, rows: Indices, costs: npt.NDArray[np.float64]) -> Indices | None:
        valid = self.plan.accepts(rows)
        if not valid.any():
            return None
        cheapest = np.flatnonzero(valid & (costs <= costs[valid].min() + TIE))
        row: Indices = rows[self.rng.choice(cheapest)]
        return row

    def _built_up(self, bound: float) -> Indices | None:
        """Return a valid row nearer than `bound`, by a beam search over the plan's steps; None if none was found."""
        partial = START
        for level in range(len(self.plan.steps)):
            partial = self.plan.joined(partial, level)
            partial = partial.where(self._cost(partial) < bound - TIE)
            partial = self._cheapest(self.plan.pruned(partial, level))
        return self.plan.declared(partial)[0] if partial.rows else None

    def _cheapest(self, partial: Partial) -> Partial:
        """Return at most `BEAM_WIDTH` points, nearest first. Equally near points are in random order."""
        order = np.lexsort((self.rng.random(partial.rows), np.round(self._cost(partial), 9)))
        return partial.take(order[:BEAM_WIDTH])

    def _cost(self, partial: Partial) -> npt.NDArray[np.float64]:
        cost = np.zeros(partial.rows)
        for step, column in zip(self.plan.steps, partial.columns, strict=False):
            cost += self.distances[step.position][column]
        return cost


def total_distance(distances: Distances, rows: Indices) -> npt.NDArray[np.float64]:
    """Return the distance of each row from a point: the sum of `distances` over the row's values."""
    sums = np.zeros(len(rows))
    for column, distance in zip(rows.T, distances, strict=True):
        sums += distance[column]
    return sums


MAX_DRAWS = 1 << 22
MAX_SUBTREE_EFFORT = 200_000_000
LEAST_SHARE = 1 / 64
"""If a smaller fraction of the randomly completed points is valid, points are built step by step instead."""

POOLS = 16
"""Number of pools of a space (`Drawn`). A pool is a set of some thousand random valid points that is kept in memory.
Building it takes a tenth of a second.
"""


class ValidPoints(Protocol):
    """Valid points of a space, as rows of value indices with columns in declared order."""

    def contains(self, rows: Indices) -> Mask:
        """Return a mask of the rows that are valid."""
        ...

    def draws(self, rng: np.random.Generator, count: int) -> Iterator[Indices]:
        """Yield blocks of random valid rows until more blocks would hardly contain new rows. Rows may repeat.

        Args:
            count: number of rows that the caller needs. It determines the size of the blocks.
        """
        ...

    def varied(self, rng: np.random.Generator, count: int, columns: Sequence[int]) -> Indices:
        """Return up to `count` random valid rows, if possible equally many per combination of values in `columns`."""
        ...

    def nearest(self, distances: Distances, rng: np.random.Generator) -> Indices:
        """Return a valid row with the smallest sum of distances, or a random one of several such rows."""
        ...


class Listed:
    """All valid points in memory, in lexicographic order."""

    def __init__(self, plan: Plan, indices: Indices) -> None:
        self._plan = plan
        self._weights: npt.NDArray[np.int64] | None = None
        if math.prod(plan.sizes) < INTEGER_LIMIT:
            lengths = range(1, len(plan.sizes) + 1)
            self._weights = np.array([math.prod(plan.sizes[index:]) for index in lengths], dtype=np.int64)
            codes = indices.astype(np.int64) @ self._weights
            order = np.argsort(codes)
            self._codes = codes[order]
        else:
            order = np.lexsort(indices.T[::-1])
        self.indices = np.asfortranarray(indices[order])
        self.indices.flags.writeable = False

    def contains(self, rows: Indices) -> Mask:
        if self._weights is None:
            return self._plan.accepts(rows)
        codes = rows.astype(np.int64) @ self._weights
        indices = np.searchsorted(self._codes, codes).clip(max=len(self._codes) - 1)
        return np.asarray(self._codes[indices] == codes)

    def draws(self, rng: np.random.Generator, count: int) -> Iterator[Indices]:
        """Yield blocks of random valid points, each point equally likely.

        The last blocks together contain every valid point exactly once, so a caller that needs new points finds all of
        them.
        """
        total = len(self.indices)
        size = 16 * count
        while size < total // 4:
            yield self.indices[rng.integers(total, size=size)]
            size *= 2
        order = rng.permutation(total)
        for start in range(0, total, size):
            yield self.indices[order[start : start + size]]

    def varied(self, rng: np.random.Generator, count: int, columns: Sequence[int]) -> Indices:
        chosen = balanced([self.indices[:, column] for column in columns], len(self.indices), count, rng)
        rows: Indices = self.indices[chosen]
        return rows

    def nearest(self, distances: Distances, rng: np.random.Generator) -> Indices:
        total = total_distance(distances, self.indices)
        nearest = np.flatnonzero(total <= total.min() + TIE)
        chosen: Indices = self.indices[rng.choice(nearest)]
        return chosen


class Drawn:
    """A space with too many valid points to enumerate. Points are drawn at random.

    There are three methods. The first method chooses an enumerated prefix (values for the first tunables of the plan),
    completes it at random, and rejects invalid results. Each valid point is equally likely.

    The second method is used if few completions are valid, or if `MAX_DRAWS` draws gave too few points. It takes points
    from pools, in random order. A pool is built step by step from random prefixes when it is first used. Each valid
    point is equally likely to be in a pool.

    The third method is used if the pools are exhausted, too. It enumerates all points that extend random prefixes.
    Points whose prefix has few valid completions are then more likely than others.

    Raises:
        EmptySpace: none of these methods found a valid point.
    """

    def __init__(self, plan: Plan, listing: Listing) -> None:
        self._plan = plan
        self._prefix = prefix = listing.prefix
        points, estimate = listing.pool or pool(plan, prefix, 0)
        self._pools: dict[tuple[int, tuple[int, ...]], Indices] = {(0, ()): plan.declared(points)}
        completions = math.prod(len(step.tunable.values) for step in plan.steps[len(prefix.columns) :])
        self._rare = estimate < LEAST_SHARE * prefix.rows * completions
        blocks = itertools.chain([self._pool(0)], self.draws(np.random.default_rng(0), 1))
        block = next((rows for rows in blocks if len(rows)), None)
        if block is None:
            raise EmptySpace("constraints", "none of millions of random configs is valid", ["relax the constraints"])
        self._known_valid = block[:1]

    def contains(self, rows: Indices) -> Mask:
        return self._plan.accepts(rows)

    def draws(self, rng: np.random.Generator, count: int) -> Iterator[Indices]:
        if not self._rare:
            yield from self._tries(rng, count, MAX_DRAWS)
        for number in rng.permutation(POOLS):
            yield rng.permutation(self._pool(int(number)))
        yield from self._subtrees(rng)

    def varied(self, rng: np.random.Generator, count: int, columns: Sequence[int]) -> Indices:
        pool = self._pool(int(rng.integers(POOLS)), tuple(columns))
        chosen: Indices = pool[balanced([pool[:, column] for column in columns], len(pool), count, rng)]
        return chosen

    def nearest(self, distances: Distances, rng: np.random.Generator) -> Indices:
        """Return the row that `Nearest` finds. If it finds none, return a near row, found by a local descent."""
        found = Nearest(plan=self._plan, distances=distances, rng=rng).find()
        return self._nearest_drawn(distances, rng) if found is None else found

    def _tries(self, rng: np.random.Generator, count: int, most: int) -> Iterator[Indices]:
        tried, size = 0, 64 * count
        while tried < most:
            yield self._plan.declared(drawn(self._plan, self._prefix, rng, size))
            tried += size
            size = min(2 * size, 1 << 17)

    def _pool(self, number: int, groups: tuple[int, ...] = ()) -> Indices:
        """Return a pool of random valid points. The pool is drawn at the first call.

        Args:
            number: seed of the random generator, so equal arguments give equal pools.
            groups: positions of tunables. If not empty, the points are chosen so that the values of these tunables vary
                as much as possible.
        """
        if (number, groups) not in self._pools:
            points, _ = pool(self._plan, self._prefix, number, groups=groups)
            self._pools[number, groups] = self._plan.declared(points)
        return self._pools[number, groups]

    def _subtrees(self, rng: np.random.Generator) -> Iterator[Indices]:
        lister = Lister(self._plan, limit=MAX_DRAWS, max_effort=MAX_SUBTREE_EFFORT)
        for row in rng.permutation(self._prefix.rows):
            for block in lister.complete(self._prefix.take(np.array([row]))):
                yield rng.permutation(self._plan.declared(block))
            if lister.exhausted:
                return

    def _nearest_drawn(self, distances: Distances, rng: np.random.Generator) -> Indices:
        """Return a row near the target point, found by a local descent.

        The descent starts at the nearest of several drawn rows. It changes one tunable at a time as long as the row
        stays valid and becomes nearer.

        Args:
            distances: for each tunable, the distance of each of its values from the target's value.
        """
        rows = np.concatenate([self._known_valid, next(self.draws(rng, 100))])
        row: Indices = rows[np.argmin(total_distance(distances, rows))]
        while True:
            moved = [self._moved(row, index, distance) for index, distance in enumerate(distances)]
            nearest: Indices = min(moved, key=lambda each: float(total_distance(distances, each[None, :])[0]))
            if np.array_equal(nearest, row):
                return row
            row = nearest

    def _moved(self, row: Indices, index: int, distance: npt.NDArray[np.float64]) -> Indices:
        """Return the row with one tunable changed to the valid value nearest to the target point.

        The row is returned unchanged if no valid value is nearer to the target than the current value.

        Args:
            index: index of the tunable to change.
            distance: distance of each value of this tunable from the target's value.
        """
        rows = np.repeat(row[None, :], len(distance), axis=0)
        rows[:, index] = np.arange(len(distance))
        better = np.flatnonzero(self.contains(rows) & (distance < distance[row[index]] - TIE))
        return rows[better[np.argmin(distance[better])]] if len(better) else row
