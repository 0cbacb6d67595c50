"""Enumerates the valid points of a space without forming all combinations of values.

A point has a value for each tunable. A partial point has values only for the first tunables of the plan
(`evo.space.plan`). Each step combines all partial points with the values of one more tunable, which is called *joining*
the tunable. Points that violate a constraint are removed when the constraint's last tunable is joined. Before that, a
point is removed if interval bounds show that the constraint cannot hold (`evo.space.bounds`).

Partial points grow breadth first while they fit in memory. They are then completed depth first, block by block, so
the required memory is limited. A space that is far too large according to an estimate is not enumerated.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evo.space.plan import START, Partial, Plan

BLOCK_ROWS = 1 << 16
ESTIMATED_FROM = 1 << 14
"""If a step leaves at least this number of partial points, the number of valid points is estimated, to detect spaces
that are too large to list.
"""

WIDTH = 1 << 12
"""Maximum number of partial points that each step of an estimate keeps. An estimate takes some hundredths of a second.
"""

MOST_CELLS = 1 << 23
"""Maximum number of value indices (points times tunables) in a step of an estimate. It limits the memory if tunables
have thousands of values.
"""

FAR_BEYOND = 100
"""A space is not enumerated if the estimated number of points exceeds the limit by this factor."""

MAX_EFFORT = 4_000_000_000
"""Maximum number of constraint terms that an enumeration evaluates; this takes some seconds. A space that needs more is
sampled instead.
"""


def drawn(plan: Plan, prefix: Partial, rng: np.random.Generator, size: int) -> Partial:
    """Choose `size` partial points of `prefix`, complete each with random values, and return the valid results."""
    rest = plan.steps[len(prefix.columns) :]
    start = prefix.take(rng.integers(prefix.rows, size=size))
    columns = (rng.integers(len(step.tunable.values), size=size, dtype=np.int32) for step in rest)
    partial = Partial(columns=(*start.columns, *columns), rows=size)
    return plan.surviving(partial, range(len(start.columns), len(plan.steps)))


def built(
    plan: Plan, prefix: Partial, rng: np.random.Generator, width: int, *, groups: Sequence[int] = ()
) -> tuple[Partial, float]:
    """Build random valid points step by step. Return the points, and an estimate of the number of all valid points.

    Each step keeps at most `width` random partial points, and then joins one tunable, so the result may have more than
    `width` points. Every valid point is equally likely to be returned, but points with the same first values tend to
    appear together. The estimate is unbiased.

    Source: Knuth, *Estimating the efficiency of backtrack programs*, Mathematics of Computation 29 (1975), with many
    paths at the same time.

    Args:
        plan: order in which tunables are joined.
        prefix: partial points with which to begin.
        width: maximum number of points that a step keeps. It is reduced if the next tunable has many values.
        groups: positions of tunables. If not empty, each step keeps points with the largest possible variety of values
            of these tunables, so that rare combinations are found. The points are then not equally likely, and the
            estimate is meaningless.
    """
    indices = [index for index, step in enumerate(plan.steps) if step.position in groups]
    partial, scale = prefix, 1.0
    for level in range(len(prefix.columns), len(plan.steps)):
        kept = min(width, max(1, MOST_CELLS // ((level + 1) * len(plan.steps[level].tunable.values))))
        if partial.rows > kept:
            scale *= partial.rows / kept
            joined = [partial.columns[index] for index in indices if index < level]
            partial = partial.take(balanced(joined, partial.rows, kept, rng))
        partial = plan.pruned(plan.joined(partial, level), level)
    return partial, scale * partial.rows


def pool(plan: Plan, prefix: Partial, number: int, *, groups: Sequence[int] = ()) -> tuple[Partial, float]:
    """Return the points and the estimate of `built`, with a random generator seeded by `number`."""
    return built(plan, prefix, np.random.default_rng(number), WIDTH, groups=groups)


def balanced(
    columns: Sequence[npt.NDArray[np.integer]], rows: int, count: int, rng: np.random.Generator
) -> npt.NDArray[np.intp]:
    """Return the positions of at most `count` random rows, equally many for each combination of values if possible.

    Args:
        columns: columns of a table, each of shape (rows,). Their values in a row form the row's combination.
        rows: number of rows of the table.

    Returns:
        Positions of one row of each combination, in random order, then of a second row of each combination, and so on.
    """
    order = rng.permutation(rows)
    codes = np.zeros(rows, dtype=np.intp)
    for column in columns:
        codes = codes * (int(column.max(initial=0)) + 1) + column[order]
    grouped = np.argsort(codes, kind="stable")
    first = np.flatnonzero(np.diff(codes[grouped], prepend=-1))
    sizes = np.diff(first, append=rows)
    turns = np.empty(rows, dtype=np.intp)
    turns[grouped] = np.arange(rows) - np.repeat(first, sizes)
    return order[np.argsort(turns, kind="stable")[:count]]


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Result of an enumeration.

    Attributes:
        points: all valid points, with columns in the plan's order. None if there are more points than the limit, or if
            the enumeration takes too long.
        prefix: partial points after the last step that was enumerated completely. If `points` is None, random points
            are built from `prefix`.
        pool: random valid points that extend `prefix`, and the estimated number of all such points; see the function
            `pool`. None, unless the enumeration ended because this estimate is too large.
    """

    points: Partial | None
    prefix: Partial
    pool: tuple[Partial, float] | None = None


class Lister:
    """Enumerates valid points in the order of a plan.

    Args:
        plan: order in which tunables are joined.
        limit: maximum number of valid points that `list` returns, and of partial points that it keeps in memory.
        max_effort: maximum number of constraint terms that all calls of this instance evaluate together.
    """

    def __init__(self, plan: Plan, *, limit: int, max_effort: int = MAX_EFFORT) -> None:
        self.plan = plan
        self.limit = limit
        self.max_effort = max_effort
        self.effort = 0

    def list(self) -> Listing:
        """Enumerate all valid points if there are at most `limit`. For an empty space, the points have no rows."""
        prefix = START
        for level in range(len(self.plan.steps)):
            grown = self._gather(self._grow(prefix, level))
            if grown is None:
                return Listing(points=self._gather(self.complete(prefix)), prefix=prefix)
            prefix = grown
            if not prefix.rows:
                break
            if prefix.rows >= ESTIMATED_FROM:
                first = pool(self.plan, prefix, 0)
                if first[1] > FAR_BEYOND * self.limit:
                    return Listing(points=None, prefix=prefix, pool=first)
        return Listing(points=prefix, prefix=prefix)

    @property
    def exhausted(self) -> bool:
        """True if the enumeration has evaluated more constraint terms than `max_effort`."""
        return self.effort > self.max_effort

    def complete(self, partial: Partial) -> Iterator[Partial]:
        """Yield the valid complete points that extend these partial points, depth first, up to the effort limit."""
        level = len(partial.columns)
        if level == len(self.plan.steps):
            yield partial
            return
        for grown in self._grow(partial, level):
            if grown.rows:
                yield from self.complete(grown)

    def _gather(self, blocks: Iterator[Partial]) -> Partial | None:
        """Return all blocks as one; None if they have more rows than the limit, or if the effort limit is reached."""
        found: list[Partial] = []
        count = 0
        for block in blocks:
            found.append(block)
            count += block.rows
            if count > self.limit:
                return None
        if self.exhausted:
            return None
        columns = zip(*(block.columns for block in found), strict=True)
        return Partial(columns=tuple(np.concatenate(column) for column in columns), rows=count)

    def _grow(self, partial: Partial, level: int) -> Iterator[Partial]:
        """Join the tunable of step `level`, and yield the remaining points, block by block, up to the effort limit."""
        step = self.plan.steps[level]
        size = max(1, BLOCK_ROWS // len(step.tunable.values))
        for start in range(0, partial.rows, size):
            if self.exhausted:
                return
            joined = self.plan.joined(partial.block(start, size), level)
            self.effort += joined.rows * step.effort
            yield self.plan.pruned(joined, level)
