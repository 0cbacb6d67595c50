"""The benchmark of the zoo: rows of ended searches, and the comparison with the goals."""

import pytest

from evo.suite import Call, suite_from
from templates.registry import find
from tests.bench import zoo
from tests.bench.zoo import Row, row_of, summary

CALL = Call(name="a", family="softmax", problem={"rows": 8})


def row(ratio: float | None) -> Row:
    return Row(call=CALL, ratio=ratio, time_us=1.0)


def test_summary_counts_level_calls_and_takes_the_geometric_mean() -> None:
    text = summary([row(2.0), row(0.98), row(0.5), row(None)])
    assert "2 of 3 calls at least level" in text
    assert "least ratio 0.50" in text
    assert "geometric mean 0.99" in text
    assert "1 calls without a ratio" in text
    assert "No call of 1" in summary([row(None)])


def test_row_of_a_search_states_what_it_found_or_why_not() -> None:
    view = {"best": {"time_us": 3.0}, "fastest_baseline": "torch", "speedup": 1.5, "finished": 9, "reason": "minutes"}
    assert row_of(CALL, view).ratio == 1.5
    failed = row_of(CALL, {**view, "best": None, "reason": "reference.py fails"})
    assert (failed.ratio, failed.trouble) == (None, "reference.py fails")


def test_small_zoo_is_for_cpus() -> None:
    for call in suite_from(zoo.ON_CPU, "zoo in small").calls:
        family = find(call.family).family
        assert family.problem(call.text, "cpu")
        assert family.implementation("cpu")
    with pytest.raises(SystemExit, match="no call"):
        zoo.main(["--device", "cpu", "nothing-like-it"])
