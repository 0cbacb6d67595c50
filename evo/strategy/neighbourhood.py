"""What is a change or two away from the best: where the last improvements are found."""

import numpy as np

from evo.space import Indices, Space
from evo.strategy.observations import Observations, Places
from evo.strategy.suggestions import Suggestions

CENTRES = 4
"""How many of the elites have their surroundings looked at."""

MOST = 200
"""Neighbours of one config at most; of more, so many random ones."""


COUPLED = 50
"""Of the pairs of changes of which one alone is not valid, so many random ones of each config."""

PAIRS = 20_000
"""Pairs of changes of one config that are looked at; of more, so many random ones, the same whenever they are drawn."""

REMEMBERED = 64
"""Configs whose pairs are kept; finding them takes longer than all else here."""


class Neighbourhood:
    """Configs that differ from a given one in a single value, whichever it is.

    Constraints may tie tunables to each other, say that two sizes be equal. No single change leads from one such
    config to the next, so pairs of changes of which one alone is invalid count as neighbours as well.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        sizes = [len(tunable.values) for tunable in space.tunables]
        self._columns = np.repeat(np.arange(len(sizes)), sizes)
        self._values = np.concatenate([np.arange(size, dtype=np.int32) for size in sizes])
        self._pairs: dict[bytes, Indices] = {}

    def of_elites(self, seen: Observations, rng: np.random.Generator) -> Suggestions:
        centres = seen.elites[:CENTRES]
        rows = [np.concatenate([self.around(row, rng), self.coupled(row, rng)]) for row in seen.rows[centres]]
        parents = np.repeat(centres, [len(each) for each in rows])
        return Suggestions(
            rows=np.concatenate(rows),
            origins=np.full(len(parents), "neighbour"),
            parents=np.stack([parents, parents], axis=1),
        )

    def around(self, row: Indices, rng: np.random.Generator) -> Indices:
        """The rows that differ from this one in a single value."""
        changes: Places = np.flatnonzero(self._values != row[self._columns])
        if len(changes) > MOST:
            changes = rng.choice(changes, size=MOST, replace=False)
        rows = np.repeat(row[None, :], len(changes), axis=0)
        rows[np.arange(len(changes)), self._columns[changes]] = self._values[changes]
        return rows

    def coupled(self, row: Indices, rng: np.random.Generator) -> Indices:
        """Some of the valid rows that differ in two values, one of which cannot change alone; the row must be valid."""
        key = row.tobytes()
        if key not in self._pairs:
            while len(self._pairs) >= REMEMBERED:
                del self._pairs[next(iter(self._pairs))]
            self._pairs[key] = self._coupled(row)
        pairs = self._pairs[key]
        return pairs if len(pairs) <= COUPLED else rng.choice(pairs, size=COUPLED, replace=False)

    def _coupled(self, row: Indices) -> Indices:
        changes: Places = np.flatnonzero(self._values != row[self._columns])
        alone = np.repeat(row[None, :], len(changes), axis=0)
        alone[np.arange(len(changes)), self._columns[changes]] = self._values[changes]
        tied = changes[~self._space.valid(alone)]
        pairs = len(tied) * len(changes)
        chosen = np.arange(pairs) if pairs <= PAIRS else np.random.default_rng(row).integers(pairs, size=PAIRS)
        first, second = tied[chosen // len(changes)], changes[chosen % len(changes)]
        apart = self._columns[first] != self._columns[second]
        first, second = first[apart], second[apart]
        rows = np.repeat(row[None, :], len(first), axis=0)
        places = np.arange(len(first))
        rows[places, self._columns[first]] = self._values[first]
        rows[places, self._columns[second]] = self._values[second]
        return np.unique(rows[self._space.valid(rows)], axis=0)
