"""The plots of a search have the right content, and escape user-supplied text."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from api.web.pages.plots.figure import config_label, label, time_axis
from api.web.pages.plots.importance import evaluate, importances
from api.web.pages.plots.lineage import main_line
from api.web.pages.plots.slices import contour, slices, values_of, varied
from api.web.pages.plots.timeline import bars, short_names
from db.queries.landscape import Point, Relative, Work
from evo.trial import Value
from evo.trial.results import Stages

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def point(number: int, time_us: float, **config: Value) -> Point:
    return Point(number=number, time_us=time_us, config=config, origin="tpe", resources={})


def relative(number: int, *parents: int) -> Relative:
    return Relative(number=number, time_us=1.0, kind="measured", config={}, origin="crossover", parents=parents)


def test_plot_labels_escape_markup() -> None:
    assert label('<a href="x">&') == '&lt;a href="x"&gt;&amp;'
    assert config_label({"A": "<b>", "B": True}) == "A=&lt;b&gt;, B=true"


@pytest.mark.parametrize("times", [(58.8,), (58.8, 58.9), (1.0, 2e6), (0.4, 0.5)])
def test_time_axis_has_ticks_inside_its_range(times: tuple[float, ...]) -> None:
    axis = time_axis(times)
    low, high = (10.0**end for end in axis["range"])
    assert low < min(times) <= max(times) < high
    assert 1 <= len(axis["tickvals"]) <= 8
    assert all(low <= tick <= high for tick in axis["tickvals"])
    assert len(set(axis["ticktext"])) == len(axis["ticktext"])


def test_only_varied_tunables_are_plotted_and_numbers_keep_their_order() -> None:
    points = [point(0, 1.0, N=16, M=2, T="x"), point(1, 2.0, N=4, M=2, T="a"), point(2, 2.0, N=128, M=2, T="x")]
    assert varied(points) == ["N", "T"]
    assert values_of("N", points) == [4, 16, 128]
    assert values_of("T", points) == ["a", "x"]
    assert varied([]) == []


def test_tunable_that_decides_the_time_has_the_highest_importance() -> None:
    points = [point(at, 10.0 + 5 * (at % 3), DECIDES=at % 3, NOISE=(at * 7919) % 4) for at in range(60)]
    found = evaluate(points)
    assert next(iter(found)) == "DECIDES"
    assert sum(found.values()) == pytest.approx(1.0)


def test_main_lineage_follows_first_parents_and_visits_a_cycle_only_once() -> None:
    family = {each.number: each for each in (relative(9, 4, 7), relative(4, 1), relative(7, 1), relative(1, 0))}
    assert main_line(family, 9) == [9, 4, 1]
    circle = {1: relative(1, 2), 2: relative(2, 1)}
    assert main_line(circle, 1) == [1, 2]


def test_timeline_bars_end_when_the_result_arrives() -> None:
    stages = Stages(render_s=0.5, compile_s=1.5, verify_s=1.0, measure_s=2.0, total_s=9.0)
    work = Work(
        worker_id="w",
        worker="laptop",
        device_uuid="d",
        job="evaluate",
        trial=1,
        granted_at=NOW,
        ended_at=NOW + timedelta(seconds=9),
        stages=stages,
    )
    compiled, verified, measured = bars(work)
    assert (compiled.begun, compiled.seconds) == (NOW, 2.0)
    assert (verified.begun, verified.seconds) == (NOW + timedelta(seconds=6), 1.0)
    assert (measured.begun, measured.seconds) == (NOW + timedelta(seconds=7), 2.0)
    endless = replace(work, stages=Stages(compile_s=-1e308, verify_s=1e308, measure_s=1e308))
    assert [bar.stage for bar in bars(endless)] == ["verify", "measure"]


def test_timeline_slot_names_are_short_and_unique() -> None:
    mine, other = ("id-1", "GPU-12345678-aaaa"), ("id-2", "GPU-12345678-bbbb")
    assert short_names({mine: "laptop", other: "desk"})[mine] == "laptop · GPU-1234"
    assert len(set(short_names({mine: "laptop", other: "laptop"}).values())) == 2
    same = ("id-2", "GPU-12345678-aaaa")
    assert short_names({mine: "laptop", same: "laptop"})[same] == "id-2 · GPU-12345678-aaaa"


class FakeLandscape:
    """A fake landscape with given points."""

    def __init__(self, *points: Point) -> None:
        self._points = list(points)

    def extent(self) -> int:
        return len(self._points)

    def even(self, most: int) -> list[Point]:
        return self._points[:most]

    fastest = even


def test_plot_data_contains_no_html_from_user_supplied_names_and_values() -> None:
    hostile = "<script>alert(1)</script>"
    configs: list[dict[str, Value]] = [{hostile: hostile if at % 2 else "b", "N": at % 3} for at in range(20)]
    told: Any = FakeLandscape(*(point(at, 10.0 + at, **config) for at, config in enumerate(configs)))
    for plot in (slices(told), contour(told, None, None), importances(told)):
        assert plot.figures
        for figure in plot.figures:
            assert hostile not in str(figure.data) + str(figure.layout)
    turned = contour(told, "N", hostile)
    assert turned.chosen == ("N", hostile)
