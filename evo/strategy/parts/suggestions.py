"""Configs that operators, e.g. crossover, suggest for one proposal."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evo.space import Indices, Space
from evo.strategy.parts.observations import Observations, Places
from evo.trial import Proposal


@dataclass(frozen=True, kw_only=True)
class Suggestions:
    """Rows of value indices with their origins. The rows need not be valid configs.

    Attributes:
        rows: value indices, shape (n, tunables).
        origins: name of the operator that made each row, shape (n,).
        parents: indices of both parents among the observations, shape (n, 2). A mutation has the same index twice; −1
            means that there is no parent.
    """

    rows: Indices
    origins: npt.NDArray[np.str_]
    parents: Places

    @classmethod
    def orphans(cls, rows: Indices, origin: str) -> "Suggestions":
        return cls(rows=rows, origins=np.full(len(rows), origin), parents=np.full((len(rows), 2), -1, dtype=np.intp))

    @classmethod
    def joined(cls, parts: Sequence["Suggestions"]) -> "Suggestions":
        return cls(
            rows=np.concatenate([part.rows for part in parts]),
            origins=np.concatenate([part.origins for part in parts]),
            parents=np.concatenate([part.parents for part in parts]),
        )

    def take(self, places: Places) -> "Suggestions":
        return Suggestions(rows=self.rows[places], origins=self.origins[places], parents=self.parents[places])

    def proposal(self, index: int, space: Space, seen: Observations) -> Proposal:
        numbers = tuple(sorted({seen.numbers[parent] for parent in self.parents[index] if parent >= 0}))
        return Proposal(config=space.decode(self.rows[index]), origin=str(self.origins[index]), parents=numbers)
