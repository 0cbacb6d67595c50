"""Suites are read from documents, share a budget, and end with a small set of configs."""

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest

from evo.errors import EvoError, InvalidInput, NotFound
from evo.family.problem import distance
from evo.search.gain import Progress, expected_gain, next_call
from evo.search.suite import suite_from
from evo.search.suite.selection import Measurements, best_set, config_for, evaluate, leave_one_out
from evo.text.assignments import lengths_of, split_shapes
from templates import registry, suites


def document(**call: Any) -> dict[str, Any]:
    return {"call": [{"name": "a", "family": "softmax", "problem": {"rows": 8}, **call}]}


def test_range_of_lengths_includes_its_ends_and_values_between() -> None:
    assert lengths_of("1..4096", "S") == [1, 4, 16, 64, 256, 1024, 4096]
    assert lengths_of("5..7", "S") == [5, 6, 7]
    assert lengths_of("9..9", "S") == [9]
    assert lengths_of("128", "S") is None
    for wrong in ("a..b", "1..", "1..2..3", "-1..4", "1...4"):
        with pytest.raises(InvalidInput, match=r"S: .* is not a range; write"):
            lengths_of(wrong, "S")
    for wrong, written in (("4..1", "1..4"), ("0..4", "1..4"), ("0..0", "1..1")):
        said = f"`{wrong}` is not a valid range; it must begin at 1 or above, .* first: write {written}"
        with pytest.raises(InvalidInput, match=said):
            lengths_of(wrong, "S")


def test_problem_text_accepts_ranges() -> None:
    assert split_shapes("B=2,S=1..3") == ["B=2,S=1", "B=2,S=2", "B=2,S=3"]
    assert split_shapes("S=2..3,512") == ["S=2", "S=3", "S=512"]
    with pytest.raises(InvalidInput, match=r"problem\.S"):
        split_shapes("S=9..1")


def test_suite_call_with_several_values_becomes_calls_that_share_its_weight() -> None:
    suite = suite_from(document(problem={"rows": [1, 2], "cols": "2..3", "causal": True}, weight=8), "mine")
    assert [call.name for call in suite.calls] == [f"a-rows{r}-cols{c}" for r in (1, 2) for c in (2, 3)]
    assert {call.weight for call in suite.calls} == {2.0}
    assert suite.calls[1].text == "rows=1,cols=3,causal=true"


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({}, "call"),
        ({"call": []}, "call"),
        ({"call": ["x"]}, r"call\[0\]"),
        ({"calls": []}, "calls"),
        ({"goal": "fast", **document()}, "goal"),
        (document(name=""), r"call\[0\].name"),
        (document(name="a b"), r"call\[0\].name"),
        (document(family=3), r"call\[0\].family"),
        (document(weight=0), r"call\[0\].weight"),
        (document(weight=True), r"call\[0\].weight"),
        (document(weight=math.nan), r"call\[0\].weight"),
        (document(weigth=1), r"call\[0\].weigth"),
        (document(problem=[1]), r"call\[0\].problem"),
        (document(problem={"rows": []}), r"call\[0\].problem.rows"),
        (document(problem={"rows": {"a": 1}}), r"call\[0\].problem.rows"),
        (document(problem={"rows": "7..3"}), r"call\[0\].problem.rows"),
        (document(problem={"rows": list(range(1, 502))}), "call"),
        ({"call": document()["call"] * 2}, "call"),
    ],
)
def test_error_names_the_invalid_key_of_a_suite(given: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{place}: "):
        suite_from(given, "mine")


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ({"name": "a" * 101}, "use up to 100 letters"),
        ({"family": 3}, "must be a string, not 3"),
        ({"family": " "}, "is missing or empty"),
        ({"weight": 1e30}, "must be a number above 0, up to "),
    ],
)
def test_error_states_the_rule_that_a_value_of_a_suite_breaks(call: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        suite_from(document(**call), "mine")


def test_suite_is_found_by_name_or_path(tmp_path: Any) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('goal = "time"\n[[call]]\nname = "a"\nfamily = "softmax"\nproblem = { rows = 8 }\n')
    assert (suites.find(str(file)).name, suites.find(str(file)).goal) == ("mine", "time")
    assert suites.find("zoo").name == "zoo"
    for wrong in ("zooo", str(tmp_path / "none.toml"), "./none.toml"):
        with pytest.raises(NotFound, match="zoo"):
            suites.find(wrong)
    file.write_text("[[call")
    with pytest.raises(InvalidInput, match="cannot be read as TOML"):
        suites.find(str(file))
    file.write_text("goal = 1\n")
    with pytest.raises(InvalidInput, match=r"goal: .* \(in .*mine.toml\)"):
        suites.find(str(file))


def test_every_zoo_call_is_a_valid_problem_of_its_family() -> None:
    zoo = suites.find("zoo")
    for call in zoo.calls:
        family = registry.find(call.family).family
        problem = family.problem(call.text)
        assert problem.items() >= call.problem.items()
    one = zoo.of_family("rmsnorm")
    assert {call.family for call in one.calls} == {"rmsnorm"}
    with pytest.raises(EvoError, match="rmsnorm"):
        zoo.of_family("rmsnrm")


def test_suite_searches_without_an_earlier_slice_come_first() -> None:
    courses = {"a": Progress(weight=9, best=(10.0,)), "b": Progress(weight=1), "c": Progress(weight=1)}
    assert next_call(courses, "ratio") == "b"
    assert next_call({**courses, "b": Progress(weight=1, open=False)}, "ratio") == "c"
    assert next_call({"a": Progress(weight=1, best=(1.0,), open=False)}, "ratio") is None


def test_next_suite_search_has_the_largest_expected_gain() -> None:
    stuck = Progress(weight=1, best=(10.0, 10.0, 10.0))
    moving = Progress(weight=1, best=(10.0, 8.0, 6.5))
    assert next_call({"stuck": stuck, "moving": moving}, "ratio") == "moving"
    heavy = Progress(weight=100, best=(10.0, 10.0, 10.0))
    assert expected_gain(heavy, "ratio") == pytest.approx(100 * expected_gain(stuck, "ratio"))
    long = Progress(weight=1, best=(1000.0, 990.0))
    short = Progress(weight=1, best=(1.0, 0.8))
    assert next_call({"long": long, "short": short}, "ratio") == "short"
    assert next_call({"long": long, "short": short}, "time") == "long"


def test_expected_gain_of_a_suite_search_falls_with_each_slice_without_improvement() -> None:
    gains = [expected_gain(Progress(weight=1, best=(None,) * count), "ratio") for count in range(1, 5)]
    assert all(later < earlier for earlier, later in itertools.pairwise(gains))
    stuck = [expected_gain(Progress(weight=1, best=(5.0,) * count), "ratio") for count in range(1, 8)]
    assert all(later < earlier for earlier, later in itertools.pairwise(stuck))


def measurements(times: dict[str, dict[int, float]], **lengths: int) -> Measurements:
    return Measurements(
        problems={name: {"S": lengths[name]} for name in times},
        weights=dict.fromkeys(times, 1.0),
        configs=[{"X": index} for index in range(10)],
        costs=times,
    )


def test_best_set_of_configs_has_the_lowest_cost() -> None:
    times = {
        "a": {0: 10.0, 1: 30.0, 2: 12.0},
        "b": {0: 30.0, 1: 10.0, 2: 12.0},
        "c": {0: 11.0, 1: 10.0, 2: 10.0},
    }
    measured = measurements(times, a=64, b=1024, c=512)
    assert best_set(measured, 1).members == (2,)
    assert best_set(measured, 1).cost == pytest.approx(1.2 ** (2 / 3))
    assert best_set(measured, 1).worst == pytest.approx(1.2)
    two = best_set(measured, 2)
    assert (two.members, two.cost, two.table) == ((0, 1), 1.0, {"a": 0, "b": 1, "c": 1})
    assert best_set(measured, 8).cost == 1.0


def test_best_set_of_configs_covers_as_many_problems_as_possible() -> None:
    measured = measurements({"a": {0: 10.0, 1: 50.0}, "b": {1: 10.0}}, a=1, b=2)
    assert best_set(measured, 1).members == (1,)
    assert len(evaluate(measured, (0,)).table) == 1


def test_config_set_serves_the_problem_with_the_larger_weight() -> None:
    measured = measurements({"a": {0: 10.0, 1: 20.0}, "b": {0: 20.0, 1: 10.0}}, a=1, b=2)
    heavy = Measurements(**{**vars(measured), "weights": {"a": 1.0, "b": 9.0}})
    assert best_set(heavy, 1).members == (1,)


def test_worst_goal_minimises_the_largest_loss_of_any_call() -> None:
    times = {"a": {0: 10.0, 1: 15.0}, "b": {0: 10.0, 1: 14.0}, "c": {0: 20.0, 1: 14.0}, "d": {0: 10.0, 1: 14.0}}
    measured = measurements(times, a=1, b=2, c=3, d=4)
    assert (best_set(measured, 1).members, best_set(measured, 1).worst) == ((0,), pytest.approx(20 / 14))
    even = {**times, "c": {0: 28.0, 1: 14.0}}
    by_mean = measurements(even, a=1, b=2, c=3, d=4)
    by_worst = replace(by_mean, goal="worst")
    assert (best_set(by_mean, 1).members, best_set(by_worst, 1).members) == ((0,), (1,))
    assert best_set(by_worst, 1).worst == pytest.approx(1.5)
    assert by_worst.without("a").goal == "worst"
    assert leave_one_out(by_worst, 1).worst == pytest.approx(
        2.0
    )  # the calls without c choose config 0, which is slow for c


def test_worst_goal_ignores_the_weights_of_calls() -> None:
    heavy, light = (Progress(weight=weight, best=(10.0, 9.0)) for weight in (50, 1))
    assert expected_gain(heavy, "worst") == expected_gain(light, "worst") == expected_gain(light, "ratio")


def test_best_set_of_eight_configs_costs_less_than_smaller_sets() -> None:
    times = {f"p{i}": {j: 1.0 if j == i else 2.0 + 0.01 * ((i * 7 + j * 3) % 11) for j in range(30)} for i in range(30)}
    measured = Measurements(
        problems={name: {"S": 1 + index} for index, name in enumerate(times)},
        weights=dict.fromkeys(times, 1.0),
        configs=[{"X": index} for index in range(30)],
        costs=times,
    )
    eight = best_set(measured, 8)
    assert len(eight.members) == 8
    assert eight.cost < best_set(measured, 4).cost < best_set(measured, 1).cost


def test_unseen_problem_gets_the_config_of_its_nearest_neighbour() -> None:
    times = {"a": {0: 10.0, 1: 20.0}, "b": {0: 10.0, 1: 15.0}, "c": {0: 40.0, 1: 10.0}, "d": {0: 30.0, 1: 10.0}}
    measured = measurements(times, a=64, b=128, c=4096, d=8192)
    chosen = best_set(measured, 2)
    assert config_for({"S": 100}, chosen, measured.problems) == 0
    assert config_for({"S": 9000}, chosen, measured.problems) == 1
    unseen = leave_one_out(measured, 2)
    assert (unseen.loss, unseen.judged, unseen.unmeasured) == (1.0, 4, 0)
    one = leave_one_out(measured, 1)
    assert one.worst is not None and one.worst > 1.3


def test_leave_one_out_evaluation_counts_unmeasured_configs() -> None:
    unseen = leave_one_out(measurements({"a": {0: 1.0}, "b": {1: 1.0}}, a=1, b=2), 1)
    assert (unseen.loss, unseen.judged, unseen.unmeasured) == (None, 0, 2)


def test_problem_distance_adds_log2_ratios_and_mismatches() -> None:
    assert distance({"S": 64, "causal": True}, {"S": 256, "causal": False}) == 3.0
    assert distance({"S": 64}, {"S": 64, "window": 0}) == 1.0
