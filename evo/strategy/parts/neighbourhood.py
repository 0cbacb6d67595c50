"""Neighbours of the elites: configs that differ in one value, and in values that constraints require to change too."""

import numpy as np

from evo.space import Indices, Space
from evo.strategy.parts.observations import Observations, Places
from evo.strategy.parts.relinking import Relinking
from evo.strategy.parts.suggestions import Suggestions

CENTRES = 4
"""Number of elites whose neighbours strategies suggest."""

MOST = 200
"""Maximum number of neighbours of a config that differ in one value. If there are more, a random subset is used."""

REMEMBERED = 64
"""Number of configs for which the result of `relinked` is cached, because computing it is expensive."""


class Neighbourhood:
    """Finds configs that differ from a given config in one value, and in values that constraints require to change too.

    For example, a constraint may require two sizes to be equal. Changing one size then makes a valid config invalid.
    `Relinking` finds the other values to change.
    """

    def __init__(self, space: Space, relinking: Relinking | None = None) -> None:
        self._space = space
        sizes = [len(tunable.values) for tunable in space.tunables]
        self._columns = np.repeat(np.arange(len(sizes)), sizes)
        self._values = np.concatenate([np.arange(size, dtype=np.int32) for size in sizes])
        self._relinking = relinking or Relinking(space)
        self._relinked: dict[bytes, Indices] = {}

    def of(self, centres: Places, seen: Observations, rng: np.random.Generator) -> Suggestions:
        """Return neighbours of the observations with the indices `centres`, of which there must be at least one.

        Neighbours that differ in only one value are not checked against the constraints. All others are valid.
        """
        parts = []
        for centre in centres:
            row = seen.rows[centre]
            for rows, origin in ((self.around(row, rng), "neighbour"), (self.relinked(row), "relinked")):
                parents = np.full((len(rows), 2), centre, dtype=np.intp)
                parts.append(Suggestions(rows=rows, origins=np.full(len(rows), origin), parents=parents))
        return Suggestions.joined(parts)

    def around(self, row: Indices, rng: np.random.Generator) -> Indices:
        """Return the rows that differ from `row` in a single value; at most `MOST`."""
        changes: Places = np.flatnonzero(self._values != row[self._columns])
        if len(changes) > MOST:
            changes = rng.choice(changes, size=MOST, replace=False)
        rows = np.repeat(row[None, :], len(changes), axis=0)
        rows[np.arange(len(changes)), self._columns[changes]] = self._values[changes]
        return rows

    def relinked(self, row: Indices) -> Indices:
        """Return the valid rows that `Relinking` finds for changes of one value that alone would make `row` invalid."""
        key = row.tobytes()
        if key not in self._relinked:
            while len(self._relinked) >= REMEMBERED:
                del self._relinked[next(iter(self._relinked))]
            self._relinked[key] = self._relink(row)
        return self._relinked[key]

    def _relink(self, row: Indices) -> Indices:
        changes: Places = np.flatnonzero(self._values != row[self._columns])
        alone = np.repeat(row[None, :], len(changes), axis=0)
        alone[np.arange(len(changes)), self._columns[changes]] = self._values[changes]
        tied = changes[~self._space.valid(alone)]
        ends = self._relinking.around(row, self._columns[tied], self._values[tied])
        return np.unique(ends, axis=0)
