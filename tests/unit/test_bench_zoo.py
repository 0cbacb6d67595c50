"""The benchmark of the suite `zoo` orders its calls, stores their rows, and compares them with the goals."""

from pathlib import Path

import pytest

from evo.promotion.statistics import Interval
from evo.search.suite import Call, suite_from
from templates.registry import find
from tests.bench.searching import BenchError
from tests.bench.zoo import __main__ as zoo
from tests.bench.zoo.alongside import Alongside
from tests.bench.zoo.row import Results, Row
from tests.bench.zoo.search import Terms, searched
from tests.unit.views import view

CALL = Call(name="a", family="softmax", problem={"rows": 8})
PATIENT = Terms(device="cpu", seconds=1.0, confirming=100.0)
TERMS = Terms(device="cpu", seconds=1.0, confirming=0.0)


def row(ratio: float | None, *, problem: str = "rows=8") -> Row:
    interval = None if ratio is None else Interval(low=ratio, estimate=ratio, high=ratio)
    return Row(name="a", family="softmax", problem=problem, cache="hot", ratio=interval, time_us=1.0)


def test_zoo_summary_shows_calls_that_match_the_baseline_and_the_geometric_mean() -> None:
    text = zoo.summary([row(2.0), row(0.98), row(0.5), row(None)], ["a GPU"])
    assert "2 of 3 calls at least as fast" in text
    assert "least ratio 0.50" in text
    assert "geometric mean 0.99" in text
    assert "1 calls without a ratio; on a GPU" in text
    assert "No call of 1" in zoo.summary([row(None)])


def test_zoo_calls_alternate_between_families() -> None:
    calls = [Call(name=f"{family}{n}", family=family, problem={}) for family in ("x", "y") for n in range(2)]
    assert [call.name for call in zoo.interleaved([*calls, Call(name="z0", family="z", problem={})])] == [
        "x0", "y0", "z0", "x1", "y1",
    ]  # fmt: skip


def test_zoo_run_continues_with_the_stored_results(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "zoo.jsonl"
    results = Results(path)
    results.add(row(None))
    results.add(row(1.5, problem="rows=9"))
    later = Results(path)
    assert later.get(("softmax", "rows=8", "hot")) is None, "a call without a ratio is searched again"
    assert later.get(("softmax", "rows=9", "hot")) == row(1.5, problem="rows=9")
    later.add(row(0.7))
    assert Results(path).row(("softmax", "rows=8", "hot")) == row(0.7)
    path.write_text("{}\n")
    with pytest.raises(SystemExit, match="contains no results of bench-zoo"):
        Results(path)


def test_zoo_times_the_best_config_and_baselines_in_one_process_without_a_confirmation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ratio = Interval(low=1.1, estimate=1.2, high=1.3)
    found = Alongside(
        time_us=2.0, baseline="torch", ratio=ratio, baselines_us={"torch": 2.4}, absent={"liger": "absent"}
    )
    monkeypatch.setattr(zoo, "searched", lambda *_: view())
    monkeypatch.setattr(zoo, "alongside", lambda *_, **__: found)
    done = zoo.measured(CALL, zoo.empty(CALL, "cpu"), TERMS, tmp_path, comparing_s=1.0)
    assert (done.ratio, done.timed, done.baselines_us, done.trouble) == (ratio, "side by side", {"torch": 2.4}, "")
    assert done.cells[4:8] == ("2.00", "torch 2.40", "1.20 (1.10–1.30)", "side by side")


def test_zoo_row_of_a_failed_search_states_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def failing(*_: object) -> None:
        raise BenchError("reference.py fails\nTraceback")

    monkeypatch.setattr(zoo, "searched", failing)
    done = zoo.measured(CALL, zoo.empty(CALL, "cpu"), TERMS, tmp_path, comparing_s=1.0)
    assert (done.ratio, done.trouble) == (None, "reference.py fails")


def test_zoo_search_of_an_unknown_family_reports_the_error(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="nothing-like-it"):
        searched(Call(name="a", family="nothing-like-it", problem={}), "hot", PATIENT, tmp_path)


def test_small_zoo_suite_has_valid_cpu_problems() -> None:
    for call in suite_from(zoo.ON_CPU, "small zoo").calls:
        family = find(call.family).family
        assert family.problem(call.text, "cpu")
        assert family.implementation("cpu")
    with pytest.raises(SystemExit, match="no call"):
        zoo.main(["--device", "cpu", "nothing-like-it"])
