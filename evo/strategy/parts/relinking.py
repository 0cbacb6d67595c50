"""Path relinking: changes several mutually constrained tunables together, without analysing the constraints.

Source: Glover, Laguna and Martí, *Fundamentals of Scatter Search and Path Relinking* (2000). In the book, a path
connects two elites. In this module, a path starts at a random valid config, so that it can reach values that no elite
has.
"""

import numpy as np
import numpy.typing as npt

from evo.space import Indices, Space
from evo.strategy.parts.observations import Places

Flags = npt.NDArray[np.bool_]

POOL = 1_000
"""Number of random valid configs at which paths may start."""


class Relinking:
    """Finds configs that differ from a given config in one value, and in values that constraints require to change too.

    Constraints couple tunables: for example, the TMA unit may need a producer warp, which needs a different number of
    stages. Changing only one or two values then usually makes the config invalid. A path therefore starts at a
    different valid config that has the wanted value. Step by step, the other values of the given config are copied into
    the start config, as long as the result is valid.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._pool: Indices | None = None

    def around(self, row: Indices, columns: Places, values: Places) -> Indices:
        """Return for each requested change a valid row that has the new value and is otherwise similar to `row`.

        A change is skipped if none of the configs in `starts` has the new value. Equal arguments give equal results.

        Args:
            row: valid row of value indices.
            columns: tunable of each change, as its index.
            values: new value index of each change.
        """
        pool = self.starts
        having = pool[:, columns] == values
        having, columns = having[:, having.any(axis=0)], columns[having.any(axis=0)]
        distances = (pool != row).sum(axis=1)[:, None]
        starts = pool[np.where(having, distances, len(row) + 1).argmin(axis=0)] if len(columns) else pool[:0]
        kept = np.zeros(starts.shape, dtype=np.bool_)
        kept[np.arange(len(starts)), columns] = True
        return self.ends(starts, np.broadcast_to(row, starts.shape), kept, np.random.default_rng(row))

    def ends(self, starts: Indices, targets: Indices, kept: Flags, rng: np.random.Generator) -> Indices:
        """Return the last valid row of each path.

        Args:
            starts: valid rows at which the paths start, shape (n, tunables).
            targets: rows whose values are copied to the paths, shape (n, tunables).
            kept: True for values of the starts that are not changed, shape (n, tunables).
        """
        rows = starts.copy()
        self._take_over(rows, targets, kept, rng)
        self._take_over(rows, targets, kept, rng)  # a later copy may make an earlier copy valid
        return rows

    def _take_over(self, rows: Indices, targets: Indices, kept: Flags, rng: np.random.Generator) -> None:
        """Copy values of `targets` to `rows` in place, in random order, as long as the rows stay valid.

        The number of values that are copied at a time doubles after a valid result and halves after an invalid result.
        """
        count, tunables = rows.shape
        wanted = (rows != targets) & ~kept
        order = np.argsort(np.where(wanted, rng.random(rows.shape), 2.0), axis=1)
        ends = wanted.sum(axis=1)
        position, size = np.zeros(count, dtype=np.intp), np.maximum(ends, 1)
        places = np.arange(tunables)
        while len(going := np.flatnonzero(position < ends)):
            first, last = position[going, None], np.minimum(position + size, ends)[going, None]
            columns = np.zeros((len(going), tunables), dtype=np.bool_)
            np.put_along_axis(columns, order[going], (first <= places) & (places < last), axis=1)
            tried = np.where(columns, targets[going], rows[going])
            valid = self._space.valid(tried)
            rows[going[valid]] = tried[valid]
            taken, refused = going[valid], going[~valid]
            position[taken] += size[taken]
            size[taken] *= 2
            position[refused[size[refused] == 1]] += 1
            size[refused] = np.maximum(size[refused] // 2, 1)

    @property
    def starts(self) -> Indices:
        """Random valid rows at which paths start, at most `POOL`. Mechanisms are equally frequent if possible.

        All searches of a space use the same rows, so that a restarted search continues identically.
        """
        if self._pool is None:
            self._pool = self._space.varied(np.random.default_rng(0), POOL)
        return self._pool
