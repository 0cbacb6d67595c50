"""Checks whether the configs of a search contain every combination, or every pair, of the values of some tunables."""

import math
from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import TypeAlias

import numpy as np

from evo.space.plan import Indices
from evo.space.space import Space
from evo.trial import Config

Pair: TypeAlias = tuple[int, int, int, int]
"""One value of each of two tunables, as indices (tunable, value, tunable, value). A value also pairs with itself."""

SAMPLED = 1 << 13
"""Number of random configs from which pairs are collected if the space is not enumerated."""

MOST_PAIRS = 100_000
"""Maximum number of value combinations of any two tunables. In a space with more, `complete` always returns False."""


class Coverage:
    """Checks whether configs contain all combinations, or all pairs, of values that occur in the valid configs.

    There are two checks, for failures with a known and with an unknown cause:

    - `every_choice`: If the failure is known to depend only on some tunables, and configs with every combination of
      their values fail, then every config fails. This is certain. If the failure depends on no tunable, one config is
      enough.
    - `complete`: If the tunables are unknown and configs with every pair of values of two tunables fail, no choice of
      the values of two tunables avoids the failure. Its cause affects all configs, or depends on more than two
      tunables. Two tunables with k values each need at least k² configs, so most searches of large spaces end earlier.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._choices: dict[tuple[str, ...], int] = {}
        self._read = 0
        self._missing: set[Pair] | None = None

    def every_choice(self, configs: Sequence[Config], names: Sequence[str]) -> bool:
        """Return True if every combination of values of the tunables `names` occurs in the configs.

        In a space that is not enumerated, combinations that constraints exclude must occur as well, so the result may
        be False although every valid combination occurs.
        """
        key = tuple(names)
        if key not in self._choices:
            self._choices[key] = self._choice_count([self._space.names.index(name) for name in key])
        return len({tuple(config[name] for name in key) for config in configs}) >= self._choices[key]

    def _choice_count(self, columns: Sequence[int]) -> int:
        if self._space.valid_count is None or not columns:
            return math.prod(self._sizes[column] for column in columns)
        return len(np.unique(self._space.indices[:, columns], axis=0))

    def complete(self, configs: Sequence[Config]) -> bool:
        """Return True if the configs contain every pair of values of two tunables that occurs in a valid config.

        If the space is not enumerated, only the pairs in `SAMPLED` random valid configs are required. The result is
        always False if two tunables have more than `MOST_PAIRS` pairs of values.

        Args:
            configs: the configs of the previous call, followed by new configs. Only the new configs are read.
        """
        if max(self._sizes) * sorted([1, *self._sizes])[-2] > MOST_PAIRS:
            return False
        if self._missing is None:
            self._missing = _pairs(self._rows(), self._sizes)
        if self._missing and len(configs) > self._read:
            rows = np.array([self._space.encode(config) for config in configs[self._read :]])
            self._missing -= _pairs(rows, self._sizes)
            self._read = len(configs)
        return not self._missing

    @property
    def _sizes(self) -> list[int]:
        return [len(tunable.values) for tunable in self._space.tunables]

    def _rows(self) -> Indices:
        if self._space.valid_count is not None:
            return self._space.indices
        return self._space.draw(np.random.default_rng(0), SAMPLED)


def _pairs(rows: Indices, sizes: Sequence[int]) -> set[Pair]:
    """Return all pairs of values that occur together in a row of value indices."""
    found: set[Pair] = set()
    for one, other in combinations_with_replacement(range(len(sizes)), 2):
        together = np.zeros((sizes[one], sizes[other]), dtype=bool)
        together[rows[:, one], rows[:, other]] = True
        found.update((one, int(a), other, int(b)) for a, b in np.argwhere(together).tolist())
    return found
