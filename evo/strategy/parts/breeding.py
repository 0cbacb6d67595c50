"""Selection, crossover and mutation of value indices, for many children in one call. Children may be invalid."""

import numpy as np
import numpy.typing as npt

from evo.space import Indices, Space
from evo.strategy.parts.observations import Observations, Places
from evo.strategy.parts.suggestions import Suggestions

MUTATED = 0.5
"""Probability that a child of two parents is also mutated. A child of one parent is always mutated."""

SECOND_MUTATION = 0.3
"""Probability that a mutation consists of two changes. The second change is in a random tunable, possibly the same."""

STEP = 0.7
"""Probability that an ordinal tunable changes to an adjacent value. Otherwise, it changes to any other value."""


class Breeding:
    """Rank-based selection among the elites, crossover, and mutation, in ordinal tunables mostly to adjacent values."""

    def __init__(self, space: Space) -> None:
        self._sizes = np.array([len(tunable.values) for tunable in space.tunables])
        self._ordinal = np.array([bool(tunable.ordinal) for tunable in space.tunables])
        self._mutable = np.flatnonzero(self._sizes > 1)

    def brood(
        self, seen: Observations, count: int, rng: np.random.Generator, *, elites: Places | None = None
    ) -> Suggestions:
        """Return `count` children of the elites. There must be at least one elite.

        Args:
            elites: indices of the observations that become parents, fastest first. By default, the fastest of all.
        """
        pool = seen.elites if elites is None else elites
        parents = pool[_by_rank(len(pool), 2 * count, rng)].reshape(count, 2)
        mothers, fathers = seen.rows[parents[:, 0]], seen.rows[parents[:, 1]]
        rows = _crossover(mothers, fathers, rng)
        alone = parents[:, 0] == parents[:, 1]
        self._mutate(rows, np.flatnonzero(alone | (rng.random(count) < MUTATED)), rng)
        return Suggestions(rows=rows, origins=np.where(alone, "mutation", "crossover"), parents=parents)

    def _mutate(self, rows: Indices, which: Places, rng: np.random.Generator) -> None:
        if len(self._mutable):
            self._move(rows, which, rng)
            self._move(rows, which[rng.random(len(which)) < SECOND_MUTATION], rng)

    def _move(self, rows: Indices, which: Places, rng: np.random.Generator) -> None:
        columns = rng.choice(self._mutable, size=len(which))
        sizes, before = self._sizes[columns], rows[which, columns]
        step = before + rng.choice((-1, 1), size=len(which))
        inside = np.where((step < 0) | (step >= sizes), 2 * before - step, step)
        anywhere = (before + rng.integers(1, sizes)) % sizes
        adjacent = self._ordinal[columns] & (rng.random(len(which)) < STEP)
        rows[which, columns] = np.where(adjacent, inside, anywhere)


def _by_rank(count: int, draws: int, rng: np.random.Generator) -> Places:
    """Return random positions below `count`; the weights fall linearly from `count` (position 0) to 1 (the last)."""
    weights = np.arange(count, 0, -1, dtype=np.float64)
    return rng.choice(count, size=draws, p=weights / weights.sum())


def _crossover(mothers: Indices, fathers: Indices, rng: np.random.Generator) -> Indices:
    """Return a child of each pair of parents, by uniform or by single-point crossover with equal probability."""
    brood, tunables = mothers.shape
    uniform = rng.random((brood, tunables)) < 0.5
    single: npt.NDArray[np.bool_] = np.arange(tunables) < rng.integers(1, max(2, tunables), size=(brood, 1))
    from_mother = np.where(rng.random((brood, 1)) < 0.5, uniform, single)
    return np.where(from_mother, mothers, fathers)
