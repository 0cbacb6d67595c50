"""All elements of the best-so-far chart are inside the chart and do not overlap."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.web.drawings.axis import margin, scale_of
from api.web.drawings.chart import BOTTOM, HEIGHT, MAX_DOTS, NARROW, RIGHT, TOP, WIDTH, Confirmed, best_so_far, spark_of
from evo.trial.objective import Objective

TIMES = st.lists(st.floats(0.01, 1e7) | st.floats(5e-324, 1.7e308), min_size=1, max_size=40)
"""Times, including extreme values that the service no longer accepts but an older database may contain."""


def test_best_so_far_chart_is_none_without_measurements() -> None:
    assert best_so_far([], 5, {}) is None


def test_best_so_far_line_descends_in_steps() -> None:
    chart = best_so_far([(0, 100.0), (2, 200.0), (3, 10.0)], 5, {})
    assert chart is not None
    assert len(chart.dots) == 3
    moves = chart.best_line.split()
    assert [move[0] for move in moves] == ["M", "H", "V", "H"]
    assert chart.summary == "Best quick time by ended trials: from 100 µs to 10 µs in 5 trials."


def test_chart_of_a_maximised_metric_is_labelled_with_its_values() -> None:
    objective = Objective(metric="gb_s", direction="maximise")
    chart = best_so_far([(0, 0.5), (1, 0.01)], 2, {}, scale=scale_of(objective, estimated=False))
    assert chart is not None
    assert chart.summary == "Best gb_s by ended trials: from 2 to 100 in 2 trials."
    assert {tick.label for tick in chart.y_ticks} >= {"10", "100"}


def test_chart_of_estimates_is_labelled_as_estimate() -> None:
    chart = best_so_far([(0, 100.0), (1, 10.0)], 2, {}, scale=scale_of(Objective(), estimated=True))
    spark = spark_of([(0, 100.0), (1, 10.0)], scale_of(Objective(), estimated=True))
    assert chart is not None
    assert spark is not None
    assert chart.summary == "Best estimate by ended trials: from ≈ 100 µs to ≈ 10 µs in 2 trials."
    assert spark.summary == "Best estimate so far: from ≈ 100 µs to ≈ 10 µs"


@given(TIMES, st.integers(0, 5))
def test_all_chart_elements_are_inside_the_plot_area(times: list[float], failures: int) -> None:
    progress = list(enumerate(times))
    chart = best_so_far(progress, len(times) + failures, {("baseline", "b"): 3.0, ("roofline", "r"): 0.0})
    assert chart is not None
    assert all(chart.left <= x <= WIDTH - RIGHT and TOP <= y <= HEIGHT - BOTTOM for x, y in chart.dots)
    assert all(TOP <= tick.at <= HEIGHT - BOTTOM for tick in chart.y_ticks)
    assert all(chart.left <= tick.at <= WIDTH - RIGHT + 0.1 for tick in chart.x_ticks)
    assert 1 <= len(chart.x_ticks) <= 8
    assert 1 <= len(chart.y_ticks) <= 8
    assert [level.label for level in chart.levels] == ["b"]
    assert chart.left == margin(tick.label for tick in chart.y_ticks), "no label is truncated"


def test_chart_separates_the_confirmed_time_of_the_best_trial_from_quick_times() -> None:
    best = Confirmed(number=4, position=1, cost=80.0)
    chart = best_so_far([(0, 100.0), (1, 50.0), (2, 40.0)], 3, {}, confirmed=best)
    assert chart is not None and chart.star is not None
    assert chart.star[0] == chart.dots[1][0] and chart.dots[0][1] < chart.star[1] < chart.dots[1][1]
    assert chart.summary.endswith("from 100 µs to 40 µs in 3 trials. The best trial is 4: 80 µs, confirmed.")


def test_chart_draws_faster_trials_lower() -> None:
    chart = best_so_far([(0, 100.0), (1, 10.0)], 2, {})
    assert chart is not None
    (_, slow), (_, fast) = chart.dots
    assert fast > slow  # SVG coordinates grow downwards


def test_chart_labels_of_close_baselines_do_not_overlap() -> None:
    chart = best_so_far([(0, 100.0)], 1, {("baseline", name): 50.0 + index for index, name in enumerate("abc")})
    assert chart is not None
    heights = [level.label_y for level in chart.levels]
    assert all(lower - upper >= 12 for upper, lower in pairwise(heights))


def test_chart_labels_are_placed_away_from_the_best_line() -> None:
    for width in (WIDTH, NARROW):
        chart = best_so_far(
            [(0, 300.0), (1, 100.0)], 40, {("roofline", "limit"): 97.0, ("baseline", "b"): 250.0}, width=width
        )
        assert chart is not None
        baseline, limit = chart.levels
        assert baseline.label_y < baseline.y, "the label is above its line, because no other label is near"
        assert limit.label_y > limit.y, "the label avoids the best line just above the limit"
        assert chart.width == chart.right + RIGHT == width


@pytest.mark.parametrize("count", [1, 2, 10, 99_999])
def test_chart_of_a_long_search_has_a_bounded_number_of_points(count: int) -> None:
    chart = best_so_far([(index, 1.0 + 1.0 / (index + 1)) for index in range(count)], count, {})
    assert chart is not None
    assert len(chart.dots) <= MAX_DOTS
    assert {tick.label for tick in chart.x_ticks} >= {"0"}
