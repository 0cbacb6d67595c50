"""Maps configs to points whose distances reflect the similarity of configs, as a Gaussian process requires."""

import numpy as np
import numpy.typing as npt

from evo.space import Indices, Space, Tunable

Points = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float64]

FEW = 4
"""A tunable with at most this number of values has one coordinate. A tunable with more values may also have the
alignment (see `Coordinates`) as a coordinate.
"""


class Coordinates:
    """Converts configs to points, with one or two coordinates for each tunable that has more than one value.

    If all values of an ordinal tunable are positive numbers, the coordinate of a value is its logarithm. With more than
    `FEW` values, there is a second coordinate, the alignment: the exponent of the largest power of two that divides the
    value. In other tunables, the coordinate of a value is its index. Coordinates of ordinal tunables are scaled to
    [0, 1]. The coordinates of other tunables are not scaled, because a model assumes the distance 1 between any two of
    their values (see `names`).

    Args:
        aligned: False to omit the alignment.

    Attributes:
        names: for each axis, True if its values have no order.
    """

    def __init__(self, space: Space, *, aligned: bool = True) -> None:
        found = [(column, tunable) for column, tunable in enumerate(space.tunables) if len(tunable.values) > 1]
        self._axes = [(column, axis) for column, tunable in found for axis in _axes(tunable, aligned)]
        self.names = np.array([not space.tunables[column].ordinal for column, _ in self._axes], dtype=np.bool_)

    def of(self, rows: Indices) -> Points:
        """Return the points of rows of value indices, shape (n, axes)."""
        found = [axis[rows[:, column], None] for column, axis in self._axes]
        return np.concatenate([np.zeros((len(rows), 0)), *found], 1)


def _axes(tunable: Tunable, aligned: bool) -> list[Floats]:
    """Return the axes of a tunable, one or two. An axis contains the coordinate of each value.

    Args:
        aligned: False to omit the alignment; see `Coordinates`.
    """
    count = len(tunable.values)
    indices = np.arange(count, dtype=np.float64)
    if not tunable.ordinal:
        return [indices]
    if not all(isinstance(value, int | float) and value > 0 for value in tunable.values):
        return [_unit(indices)]
    magnitude = np.log(np.asarray(tunable.values, dtype=np.float64))
    if magnitude.min() == magnitude.max():  # large numbers may be equal in float64
        return [_unit(indices)]
    alignment = _alignment(tunable)
    distinct = aligned and count > FEW and len(set(alignment)) > 1
    return [_unit(magnitude), _unit(alignment)] if distinct else [_unit(magnitude)]


def _alignment(tunable: Tunable) -> Floats:
    """Return for each value the exponent of the largest power of two that divides it; 0 if it is not a whole number."""
    integers = [int(value) if float(value).is_integer() else 1 for value in tunable.values]
    return np.array([(value & -value).bit_length() - 1 for value in integers], dtype=np.float64)


def _unit(values: Floats) -> Floats:
    low, high = values.min(), values.max()
    return np.asarray((values - low) / (high - low))
