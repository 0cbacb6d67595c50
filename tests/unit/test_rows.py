"""Computation by blocks of rows gives the same result as computation of the whole array."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from evo.reference import Arrays
from evo.reference.rows import BLOCK_ELEMENTS, a_column_each, by_rows, raise_columns

COLUMNS = 1 << 12


@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, 200])
def test_computation_by_rows_concatenates_block_results_in_order(rows: int) -> None:
    x = np.random.default_rng(0).standard_normal((rows, COLUMNS), np.float32)
    weight = np.arange(COLUMNS, dtype=np.float32)
    found = scaled({"factor": 2.0}, {"x": x, "weight": weight})
    assert np.array_equal(found["out"], 2.0 * x.astype(np.float64) * weight)
    assert np.array_equal(found["largest"], x.max(axis=-1, initial=-9.0))
    assert found["out"].dtype == np.float64


def test_computation_by_rows_uses_blocks_of_a_bounded_size() -> None:
    sizes: list[int] = []

    @by_rows
    def counted(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Any]:
        sizes.append(inputs["x"].size)
        return {"out": inputs["x"]}

    counted({}, {"x": np.zeros((4 * BLOCK_ELEMENTS // COLUMNS, COLUMNS))})
    assert sizes == [BLOCK_ELEMENTS] * 4


@pytest.mark.parametrize(("columns", "most"), [(1, 1), (2, 1), (3, 2), (4, 3), (100, 4)])
def test_at_most_four_columns_of_an_input_get_large_elements(columns: int, most: int) -> None:
    for seed in range(20):
        x = np.zeros((2, columns), np.float32)
        raise_columns(np.random.default_rng(seed), x, 7.0)
        assert set(np.unique(x)) <= {0.0, 7.0}
        assert 1 <= np.count_nonzero(x[0]) <= most


def test_computation_by_rows_raises_errors_of_blocks_unchanged() -> None:
    @by_rows
    def fails(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Any]:
        if inputs["x"].max() > 0:
            raise ValueError("no such number")
        return {"out": inputs["x"]}

    x = np.zeros((300, COLUMNS))
    x[-1, -1] = 1.0
    with pytest.raises(ValueError, match="no such number"):
        fails({}, {"x": x})


@by_rows
def scaled(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Any]:
    product = inputs["x"].astype(np.float64) * problem["factor"] * inputs["weight"]
    return {"out": product, "largest": inputs["x"].max(axis=-1, initial=-9.0)}


@pytest.mark.parametrize(("rows", "columns"), [(300, 300), (1000, 7), (256, 65536), (10, 1003), (1, 5), (5, 1)])
def test_one_random_column_per_row_leaves_no_large_gap(rows: int, columns: int) -> None:
    places = a_column_each(np.random.default_rng(1), rows, columns)
    assert len(places) == rows
    assert places.min() >= 0 and places.max() < columns
    assert np.diff([-1, *np.unique(places), columns]).max() <= max(1, 2 * -(-columns // rows))
    if columns > 10 * rows:
        assert len(np.unique(places % (columns // rows))) > 1
