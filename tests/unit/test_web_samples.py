"""Charts of samples stay inside their frame and have readable axes."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from api.web.drawings.axis import Axis, round_step
from api.web.drawings.samples import BINS, BOTTOM, HALF, MOST_POINTS, RIGHT, TOP, TRACE_HEIGHT, drawing
from evo.trial.timing import Timing

TIMES = st.floats(0.1, 1e6) | st.floats(5e-324, 8e307)
"""Times, including extreme values that the service no longer accepts but an older database may contain."""
SERIES = st.lists(st.lists(TIMES, min_size=1, max_size=30), min_size=1, max_size=4)


@given(SERIES)
@example([[1.0, 1.0 + 2.0**-52]])
def test_all_elements_of_a_sample_chart_are_inside_the_chart(series: list[list[float]]) -> None:
    drawn = drawing({str(index): Timing(samples_us=tuple(samples)) for index, samples in enumerate(series)})
    assert drawn is not None
    for each, samples in zip(drawn.series, series, strict=True):
        assert len(each.points) == len(samples) == each.count
        assert all(drawn.left <= point.x <= HALF - RIGHT for point in each.points)
        assert all(TOP <= point.y <= TRACE_HEIGHT - BOTTOM for point in each.points)
        assert sum(point.outlying for point in each.points) == each.outlying
        assert all(drawn.left <= bar.x <= HALF - RIGHT for bar in each.bins)
        assert len(each.bins) <= BINS
    assert 1 <= len(drawn.time_marks) <= 12


def test_sample_chart_is_none_without_samples() -> None:
    assert drawing({}) is None


def test_interrupted_sample_does_not_flatten_other_samples_in_the_chart() -> None:
    drawn = drawing({"k": Timing(samples_us=(*(10.0 + 0.01 * index for index in range(40)), 5000.0))})
    assert drawn is not None
    (series,) = drawn.series
    assert series.outlying == 1
    assert series.points[-1].outlying
    heights = [point.y for point in series.points[:-1]]
    assert max(heights) - min(heights) > 100
    assert drawn.summary == "k: median 10.2 µs, 41 samples from 10 µs to 5 ms."


@pytest.mark.parametrize("count", [1, 2, 3, 5, 12, 100])
def test_axis_labels_state_the_numbers_of_the_samples_at_their_positions(count: int) -> None:
    drawn = drawing({"k": Timing(samples_us=tuple(1.0 + index % 7 for index in range(count)))})
    assert drawn is not None
    marked = {mark.label: mark.at for mark in drawn.order_marks}
    assert len(marked) == len(drawn.order_marks) <= 7
    points = {str(number): point.x for number, point in enumerate(drawn.series[0].points, start=1)}
    assert marked.items() <= points.items()


def test_sample_chart_of_a_long_series_is_downsampled() -> None:
    drawn = drawing({"k": Timing(samples_us=tuple(1.0 + index % 7 for index in range(5000)))})
    assert drawn is not None
    assert len(drawn.series[0].points) <= MOST_POINTS
    assert drawn.series[0].count == 5000


@pytest.mark.parametrize(("least", "step"), [(0.011, 0.02), (1.0, 1.0), (3.0, 5.0), (600.0, 1000.0)])
def test_axis_steps_of_a_chart_are_round_numbers(least: float, step: float) -> None:
    assert round_step(least) == pytest.approx(step)


def test_axis_of_an_empty_range_has_one_tick() -> None:
    axis = Axis(low=2.0, high=2.0, start=0.0, end=10.0)
    assert [(mark.at, mark.label) for mark in axis.marks(5, str)] == [(5.0, "2.0")]
