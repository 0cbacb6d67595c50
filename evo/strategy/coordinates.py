"""Configs as points whose distance says how alike they are, which is what a Gaussian process needs."""

import numpy as np
import numpy.typing as npt

from evo.space import Indices, Space, Tunable

Points = npt.NDArray[np.float64]

FEW = 4
"""Up to so many values their magnitude says all; with more, alignment matters too."""


MANY = 128
"""Of more unordered values than this each goes by so many random signs, which tell any two apart nearly as well as an
axis for each would, and take less room."""


class Coordinates:
    """A number goes by its logarithm and, where there are many, by its alignment; anything else by being the same.

    Every axis spans [0, 1], and any two values of an unordered tunable are 1 apart, or nearly so if there are many.

    Attributes:
        axes: for each coordinate the axis it belongs to; coordinates of one axis share a length scale.
    """

    def __init__(self, space: Space, *, aligned: bool = True) -> None:
        found = [_tables(tunable, aligned) for tunable in space.tunables]
        tables = [(column, table) for column, tables in enumerate(found) for table in tables]
        self._tables = tables
        widths = [table.shape[1] for _, table in tables]
        self.axes = np.repeat(np.arange(len(tables)), widths)

    def of(self, rows: Indices) -> Points:
        """The points of these rows of ranks, shape (n, coordinates)."""
        return np.concatenate(
            [np.zeros((len(rows), 0)), *(table[rows[:, column]] for column, table in self._tables)], 1
        )


def _tables(tunable: Tunable, aligned: bool) -> list[Points]:
    count = len(tunable.values)
    if count == 1:
        return []
    if not tunable.ordinal:
        return [_unordered(count)]
    ranks = np.arange(count, dtype=np.float64)
    if not all(isinstance(value, int | float) and value > 0 for value in tunable.values):
        return [_unit(ranks)]
    magnitude = np.log(np.asarray(tunable.values, dtype=np.float64))
    if magnitude.min() == magnitude.max():  # of numbers so large, and so near, that float64 tells none apart
        return [_unit(ranks)]
    alignment = _alignment(tunable)
    told_apart = aligned and count > FEW and len(set(alignment)) > 1
    return [_unit(magnitude), _unit(alignment)] if told_apart else [_unit(magnitude)]


def _unordered(count: int) -> Points:
    if count <= MANY:
        return np.asarray(np.eye(count) / np.sqrt(2))
    signs = np.random.default_rng(count).choice((-1.0, 1.0), size=(count, MANY))
    return np.asarray(signs / np.sqrt(2 * MANY))


def _alignment(tunable: Tunable) -> npt.NDArray[np.float64]:
    """The largest power of two that divides each whole number, by its exponent; 0 for other numbers."""
    whole = [int(value) if float(value).is_integer() else 1 for value in tunable.values]
    return np.array([(value & -value).bit_length() - 1 for value in whole], dtype=np.float64)


def _unit(values: npt.NDArray[np.float64]) -> Points:
    low, high = values.min(), values.max()
    return np.asarray((values - low) / (high - low))[:, None]
