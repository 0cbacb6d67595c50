"""The host computes the distance of an output from the reference, as GPUs must compute it."""

import numpy as np
import pytest

from workers.backends.distance import Distance, distance

RIGHT = np.arange(200_000, dtype=np.float64).reshape(2, -1) / 7


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_distance_of_a_large_output_covers_all_elements(dtype: str) -> None:
    values = (RIGHT % 3).astype(dtype)
    found = distance(values, RIGHT)
    difference = values.astype(np.float64) - RIGHT
    assert found.squares == pytest.approx(float(np.sum(difference**2)))
    assert found.max_abs == float(np.abs(difference).max())
    assert (found.elements, found.unwritten, found.not_finite) == (RIGHT.size, 0, 0)


def test_distance_of_an_output_counts_non_finite_values_separately() -> None:
    values = RIGHT.astype(np.float32)
    values[0, 70_000] = np.inf
    values[1, :3].view(np.uint8).fill(0xFF)
    values[0, 1] -= 1
    found = distance(values, RIGHT)
    assert (found.unwritten, found.not_finite) == (3, 4)
    assert found.max_abs == pytest.approx(1.0)


def test_integer_output_of_minus_one_does_not_count_as_unwritten() -> None:
    minus_one = np.full(4, -1, np.int32)
    assert distance(minus_one, np.full(4, -1.0)) == Distance(
        elements=4, unwritten=None, not_finite=0, squares=0.0, max_abs=0.0
    )
