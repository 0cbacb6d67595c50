"""Neighbours of the elites: one change away, with whatever else the change demands."""

import numpy as np

from evo.space import Indices, Space
from evo.strategy.parts.observations import Observations, Places
from evo.strategy.parts.relinking import Relinking
from evo.strategy.parts.suggestions import Suggestions

CENTRES = 4
"""Elites whose neighbours are suggested."""

MOST = 200
"""Single changes of one config at most; of more, so many random ones."""

REMEMBERED = 64
"""Configs whose relinked neighbours are kept; finding them takes longer than all else here."""


class Neighbourhood:
    """Configs that differ from a given one in a single value, or in one value and in what that value demands.

    Constraints may tie tunables to each other, say that two sizes be equal. No single change leads from one such
    config to the next: `Relinking` finds what else must change.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        sizes = [len(tunable.values) for tunable in space.tunables]
        self._columns = np.repeat(np.arange(len(sizes)), sizes)
        self._values = np.concatenate([np.arange(size, dtype=np.int32) for size in sizes])
        self._relinking = Relinking(space)
        self._relinked: dict[bytes, Indices] = {}

    def of_elites(self, seen: Observations, rng: np.random.Generator) -> Suggestions:
        """Neighbours of the fastest trials; the single changes need not be valid."""
        parts = []
        for centre in seen.elites[:CENTRES]:
            row = seen.rows[centre]
            for rows, origin in ((self.around(row, rng), "neighbour"), (self.relinked(row), "relinked")):
                parents = np.full((len(rows), 2), centre, dtype=np.intp)
                parts.append(Suggestions(rows=rows, origins=np.full(len(rows), origin), parents=parents))
        return Suggestions.joined(parts)

    def around(self, row: Indices, rng: np.random.Generator) -> Indices:
        """The rows that differ from this one in a single value."""
        changes: Places = np.flatnonzero(self._values != row[self._columns])
        if len(changes) > MOST:
            changes = rng.choice(changes, size=MOST, replace=False)
        rows = np.repeat(row[None, :], len(changes), axis=0)
        rows[np.arange(len(changes)), self._columns[changes]] = self._values[changes]
        return rows

    def relinked(self, row: Indices) -> Indices:
        """Valid rows for the single changes of a valid row that are not valid alone: one each, where one is known."""
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
