"""Everything one change away from the best: where the last improvements are found."""

import numpy as np

from evo.space import Indices, Space
from evo.strategy.observations import Observations, Places
from evo.strategy.suggestions import Suggestions

CENTRES = 4
"""How many of the elites have their surroundings looked at."""

MOST = 200
"""Neighbours of one config at most; of more, so many random ones."""


class Neighbourhood:
    """Configs that differ from a given one in a single value, whichever it is."""

    def __init__(self, space: Space) -> None:
        sizes = [len(tunable.values) for tunable in space.tunables]
        self._columns = np.repeat(np.arange(len(sizes)), sizes)
        self._values = np.concatenate([np.arange(size, dtype=np.int32) for size in sizes])

    def of_elites(self, seen: Observations, rng: np.random.Generator) -> Suggestions:
        centres = seen.elites[:CENTRES]
        rows = [self.around(seen.rows[centre], rng) for centre in centres]
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
