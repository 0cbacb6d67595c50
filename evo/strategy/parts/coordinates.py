"""Configs as points whose distance says how alike they are, which is what a Gaussian process needs."""

import numpy as np
import numpy.typing as npt

from evo.space import Indices, Space, Tunable

Points = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float64]

FEW = 4
"""Up to so many values their magnitude says all; with more, alignment matters too."""


class Coordinates:
    """A positive number goes by its logarithm and, where there are many, by its alignment; others by their rank.

    Numbers span [0, 1] on each of their axes. What has no order stands for itself: its coordinate is its rank, and any
    two are 1 apart.

    Attributes:
        names: for each axis whether it is of that kind.
    """

    def __init__(self, space: Space, *, aligned: bool = True) -> None:
        found = [(column, tunable) for column, tunable in enumerate(space.tunables) if len(tunable.values) > 1]
        self._axes = [(column, axis) for column, tunable in found for axis in _axes(tunable, aligned)]
        self.names = np.array([not space.tunables[column].ordinal for column, _ in self._axes], dtype=np.bool_)

    def of(self, rows: Indices) -> Points:
        """The points of these rows of ranks, shape (n, axes)."""
        found = [axis[rows[:, column], None] for column, axis in self._axes]
        return np.concatenate([np.zeros((len(rows), 0)), *found], 1)


def _axes(tunable: Tunable, aligned: bool) -> list[Floats]:
    """One or two coordinates of each value."""
    count = len(tunable.values)
    ranks = np.arange(count, dtype=np.float64)
    if not tunable.ordinal:
        return [ranks]
    if not all(isinstance(value, int | float) and value > 0 for value in tunable.values):
        return [_unit(ranks)]
    magnitude = np.log(np.asarray(tunable.values, dtype=np.float64))
    if magnitude.min() == magnitude.max():  # of numbers so large, and so near, that float64 tells none apart
        return [_unit(ranks)]
    alignment = _alignment(tunable)
    told_apart = aligned and count > FEW and len(set(alignment)) > 1
    return [_unit(magnitude), _unit(alignment)] if told_apart else [_unit(magnitude)]


def _alignment(tunable: Tunable) -> Floats:
    """The largest power of two that divides each whole number, by its exponent; 0 for other numbers."""
    whole = [int(value) if float(value).is_integer() else 1 for value in tunable.values]
    return np.array([(value & -value).bit_length() - 1 for value in whole], dtype=np.float64)


def _unit(values: Floats) -> Floats:
    low, high = values.min(), values.max()
    return np.asarray((values - low) / (high - low))
