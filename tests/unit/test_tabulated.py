"""Expressions with tables have the same truth values and errors as without tables."""

import itertools
from typing import Any

import numpy as np
import pytest

from evo.errors import InvalidInput
from evo.space import Tunable
from evo.space.expression import Expression
from evo.space.tabulated import Tabulated

TUNABLES = (
    Tunable(name="A", values=(0, 1, 2, 3)),
    Tunable(name="B", values=(1, 2, 4, 8, 16)),
    Tunable(name="C", values=(0.5, 1.5, 2.5)),
    Tunable(name="MODE", values=("rows", "columns", "none")),
    Tunable(name="FLAG", values=(False, True)),
    *(Tunable(name=f"T{number}", values=tuple(range(20))) for number in range(4)),
)


def every_point(names: list[str]) -> dict[str, np.ndarray]:
    sizes = [range(len(each.values)) if each.name in names else range(1) for each in TUNABLES]
    points = np.array(list(itertools.product(*sizes)), dtype=np.int32)
    return {each.name: points[:, column] for column, each in enumerate(TUNABLES)}


def values_of(indices: dict[str, np.ndarray]) -> dict[str, Any]:
    return {each.name: each.array[indices[each.name]] for each in TUNABLES}


@pytest.mark.parametrize(
    "text",
    [
        "A < B",
        "A * B <= 6 and B * C > 2",
        "not FLAG or A + B > 3",
        "B // max(A, 1) in (1, 2, 8)",
        "(A if MODE == 'rows' else B if MODE != 'none' else 0) * C >= 2.5",
        "(MODE if FLAG else 'none') == 'rows' or gcd(A, B) > 1",
        "A == 0 or B % A == 0",
        "0 < A < B < 9",
        "A - B",
        "2 ** A - B",
        "(A * B if A > 0 and B // A > 1 else ceil_div(B, 3)) + (A * B if FLAG else 0) > 7",
    ],
)
def test_truth_values_are_equal_with_tables(text: str) -> None:
    expression = Expression.parse(text, "constraint")
    indices = every_point(["A", "B", "C", "MODE", "FLAG"])
    found = Tabulated(expression, TUNABLES).truth(indices)
    np.testing.assert_array_equal(found, expression.truth(values_of(indices)))
    assert 0 < found.sum() < len(found)


def test_only_parts_with_few_combinations_become_tables() -> None:
    expression = Expression.parse(
        "(T0 * T1 + T2) % 7 + (A * B + T3) % 5 + (A * B + T3) % 5 > T0 * T1 // 9", "constraint"
    )
    tabulated = Tabulated(expression, TUNABLES)
    tables = {" ".join(table.names): len(table.values) for table in tabulated._tables.values()}
    assert tables == {"A B T3": 400, "T0 T1": 400, "T0 T1 T2": 8000}  # the complete expression has 3.2 million values
    rng = np.random.default_rng(0)
    indices = {each.name: rng.integers(len(each.values), size=500) for each in TUNABLES}
    np.testing.assert_array_equal(tabulated.truth(indices), expression.truth(values_of(indices)))


def test_part_without_a_value_for_some_combinations_is_evaluated_only_where_it_is_needed() -> None:
    expression = Expression.parse("A == 0 or (B // A + T0 + T1 + T2) % 3 == 0", "constraint")
    tabulated = Tabulated(expression, TUNABLES)
    rng = np.random.default_rng(0)
    indices = {each.name: rng.integers(len(each.values), size=500) for each in TUNABLES}
    np.testing.assert_array_equal(tabulated.truth(indices), expression.truth(values_of(indices)))
    assert not any("A" in table.names and "B" in table.names for table in tabulated._tables.values())


def test_error_names_the_part_that_has_no_value_as_without_tables() -> None:
    expression = Expression.parse("B // A + T0 * T1 > T2 + T3", "constraint")
    indices = {each.name: np.zeros(3, dtype=np.int32) for each in TUNABLES}
    with pytest.raises(InvalidInput) as without:
        expression.truth(values_of(indices))
    with pytest.raises(InvalidInput) as found:
        Tabulated(expression, TUNABLES).truth(indices)
    assert str(found.value) == str(without.value)
    assert "`B // A` divides by zero" in str(found.value)
