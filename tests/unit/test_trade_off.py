"""The plot of trials by two objectives shows their Pareto front."""

import pytest

from api.web.drawings.trade_off import TradeOff, Weighed, front_of, trade_off
from evo.trial.objective import Objective

OBJECTIVE = Objective(metric="registers")
TRIALS = [
    Weighed(number=0, first=10.0, second=64.0),
    Weighed(number=1, first=20.0, second=32.0),
    Weighed(number=2, first=20.0, second=48.0),
    Weighed(number=3, first=80.0, second=16.0),
    Weighed(number=4, first=90.0, second=16.0),
]


def drawn(trials: list[Weighed], width: float = 760.0, objective: Objective = OBJECTIVE) -> TradeOff:
    axes = objective.axes
    assert axes is not None
    found = trade_off(trials, axes, width=width, estimated=False)
    assert found is not None
    return found


def test_pareto_front_contains_the_trials_that_are_not_dominated() -> None:
    assert [each.number for each in front_of(TRIALS)] == [0, 1, 3]
    assert [each.number for each in front_of([*TRIALS, Weighed(number=5, first=20.0, second=32.0)])] == [0, 1, 5, 3]


@pytest.mark.parametrize("width", [760.0, 340.0])
def test_pareto_front_descends_to_the_right_inside_the_chart(width: float) -> None:
    chart = drawn(TRIALS, width)
    assert [spot.label for spot in chart.spots] == ["0", "1", "3"]
    assert len(chart.dots) == 2
    xs, ys = [spot.x for spot in chart.spots], [spot.y for spot in chart.spots]
    assert xs == sorted(xs)
    assert ys == sorted(ys), "lower values of the metric are drawn further down"
    for x, y in [*chart.dots, *zip(xs, ys, strict=True)]:
        assert chart.left <= x <= chart.right
        assert chart.top <= y <= chart.bottom
    assert chart.summary == "5 trials by time and registers; 3 trials on the Pareto front, from trial 0 to 3."


def test_pareto_chart_omits_labels_of_close_trials() -> None:
    close = [Weighed(number=number, first=10.0 + number / 100, second=64.0 - number / 10) for number in range(3)]
    far = Weighed(number=9, first=1000.0, second=1.0)
    assert [spot.label for spot in drawn([*close, far]).spots] == ["0", "", "", "9"]


def test_pareto_chart_of_a_maximised_metric_is_labelled_with_its_values() -> None:
    objective = Objective(metric="gb_s", direction="maximise")
    trials = [Weighed(number=0, first=1.0, second=1 / 100), Weighed(number=1, first=2.0, second=1 / 10)]
    assert {tick.label for tick in drawn(trials, objective=objective).y_ticks} >= {"10", "100"}


def test_single_trial_gives_no_pareto_chart() -> None:
    assert trade_off(TRIALS[:1], (Objective(), OBJECTIVE), width=760.0, estimated=False) is None


def test_pareto_chart_of_two_metrics_labels_both_axes_with_their_values() -> None:
    objective = Objective(metric="gb_s", direction="maximise", second_metric="registers")
    trials = [Weighed(number=0, first=1 / 100, second=32.0), Weighed(number=1, first=1 / 10, second=16.0)]
    chart = drawn(trials, objective=objective)
    assert {tick.label for tick in chart.x_ticks} >= {"10", "100"}
    assert {tick.label for tick in chart.y_ticks} >= {"20", "30"}
    assert chart.summary.startswith("2 trials by gb_s and registers; ")
