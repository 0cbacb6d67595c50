"""Find the nearest valid point of a space that is not listed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evo.space.plan import START, Indices, Partial, Plan

Distances = Sequence[npt.NDArray[np.float64]]
"""For each tunable, in declared order: the distance of each of its values from some point."""

TIE = 1e-9
"""Distances this close count as equal: they are sums of fractions, and rounding depends on the order."""

MAX_CHANGES = 128
BEAM_WIDTH = 512


@dataclass(frozen=True, kw_only=True)
class Nearest:
    """A search for the valid point nearest to a given one.

    It first checks points that differ in one or two tunables, where the nearest one almost always is. If three changes
    could be cheaper, a beam search then builds points up step by step and keeps the `BEAM_WIDTH` cheapest partial
    points that could still be nearer. The result is exact if the beam is wide enough and at most `MAX_CHANGES` values
    matter.

    Attributes:
        distances: distance of every value from the given point; zero for the point's own values.
    """

    plan: Plan
    distances: Distances
    rng: np.random.Generator

    def find(self) -> Indices | None:
        """Return a nearest valid row in declared order; None when none was found."""
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
            (float(cost), index, rank)
            for index, each in enumerate(self.distances)
            for rank, cost in enumerate(each)
            if rank != own[index]
        ]
        costs, places, ranks = (np.array(column) for column in zip(*sorted(changes)[:MAX_CHANGES], strict=True))
        single = np.repeat(own[None, :], len(costs), axis=0)
        single[np.arange(len(costs)), places] = ranks
        nearest = self._cheapest_valid(single, costs)
        first, second = np.triu_indices(len(costs), 1)
        worth = places[first] != places[second]
        if nearest is not None:
            worth &= costs[first] + costs[second] < total_distance(self.distances, nearest[None, :])[0] - TIE
        first, second = first[worth], second[worth]
        double = single[first]
        double[np.arange(len(first)), places[second]] = ranks[second]
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
        """Return a valid row nearer than `bound`, by a beam search over the plan's steps."""
        partial = START
        for level in range(len(self.plan.steps)):
            partial = self.plan.joined(partial, level)
            partial = partial.where(self._cost(partial) < bound - TIE)
            partial = self._cheapest(self.plan.pruned(partial, level))
        return self.plan.declared(partial)[0] if partial.rows else None

    def _cheapest(self, partial: Partial) -> Partial:
        """Return at most `BEAM_WIDTH` points, cheapest first, in random order among equals."""
        order = np.lexsort((self.rng.random(partial.rows), np.round(self._cost(partial), 9)))
        return partial.take(order[:BEAM_WIDTH])

    def _cost(self, partial: Partial) -> npt.NDArray[np.float64]:
        cost = np.zeros(partial.rows)
        for step, column in zip(self.plan.steps, partial.columns, strict=False):
            cost += self.distances[step.position][column]
        return cost


def total_distance(distances: Distances, rows: Indices) -> npt.NDArray[np.float64]:
    """The distance of each row."""
    sums = np.zeros(len(rows))
    for column, distance in zip(rows.T, distances, strict=True):
        sums += distance[column]
    return sums
