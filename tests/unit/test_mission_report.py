"""A mission report contains only statements that the measurements support."""

from dataclasses import replace

import pytest

from evo.device import Device
from evo.device.estimate.target import known
from evo.family import Work
from evo.messages.view import BestView
from evo.promotion.statistics import Interval
from evo.report.mission import MISSION, REHEARSAL, Result, mission_report
from evo.trial.timing import Timing
from tests.unit.views import CHAMPION, CONFIG, VERDICT, finished, trial, view

L4 = Device(**{**vars(known("NVIDIA L4")), "uuid": "GPU-1", "software": {"cuda_driver": "12.2"}})
WORK = Work(flops=4 * 16 * 64 * 512 * 512, bytes=4 * 16 * 512 * 64 * 2, dtype="float16")
"""Work of the problem B=2, H=8, S=512, D=64. Its roofline on an L4 is 8.9 µs, or 14 µs with a cold cache."""


def result(time_us: float, device: Device = L4, baseline_us: float = 41.0) -> Result:
    ratio = baseline_us / time_us
    verdict = replace(VERDICT, baseline="torch FLASH", baseline_speedup=Interval(low=ratio, estimate=ratio, high=ratio))
    search = finished(
        device=device,
        best=BestView(number=12, config=CONFIG, time_us=time_us),
        champion=replace(CHAMPION, device_model=device.model, time_us=time_us, verdict=verdict),
        baselines={"torch FLASH": Timing(samples_us=(baseline_us,) * 5)},
        fastest_baseline="torch FLASH",
        cost=0.34,
    )
    return Result(search=search, best=replace(trial(12, time_us), environment={"sm_mhz": "2040"}))


def report(*results: Result) -> str:
    return " ".join(mission_report(MISSION, results, [WORK] * len(results), ["ncu, for profiles: install it"]).split())


def test_mission_report_marks_goals_as_reached_open_or_impossible() -> None:
    text = report(result(18.0))
    for part in (
        "| 47 µs | PyTorch's attention, from earlier notes | reached |",
        "| 24.2 µs | xFormers (CUTLASS), from earlier notes | reached |",
        "| 16 µs | first target | open: the time is 1.12× the goal |",
        "| 8 µs | hoped-for time with FP8, lower end | impossible in this dtype: it takes at least 8.862 µs |",
        "| 5 µs | last target | impossible",
        "on this device is 8.862 µs hot and 13.98 µs cold; the kernel reaches 49% of this limit.",
        "| champion 5, confirmed, in one fresh process | 18 µs | 2.28× as fast |",
        "Decision: keep champion 5; it is 2.278× (2.278 to 2.278) as fast as torch FLASH in one process.",
        "| sm_mhz | 2040 |",
        "The searches cost 0.34 together.",
        "ncu, for profiles: install it",
    ):
        assert part in text
    assert "not on NVIDIA L4" not in text


def test_goal_below_the_datasheet_limit_is_reached_if_the_measured_time_is_shorter() -> None:
    assert "| 8 µs | hoped-for time with FP8, lower end | reached |" in report(result(7.9))


def test_mission_report_recommends_a_faster_baseline() -> None:
    advice = "fall back to torch FLASH"
    assert advice in report(result(50.0))
    assert advice not in report(result(7.9))


def test_mission_report_marks_goals_as_reached_only_on_an_l4() -> None:
    text = report(result(4.0, known("sm_90")))
    assert "Timed on NVIDIA H100 80GB HBM3, not on NVIDIA L4" in text
    assert "which cannot be compared" in text
    assert "| 16 µs | first target | a shorter time on this device |" in text
    assert "| 5 µs | last target | impossible in this dtype: it takes at least 8.862 µs |" in text
    assert "reached |" not in text


def test_mission_rehearsal_does_not_compare_times_with_goals() -> None:
    text = mission_report(REHEARSAL, [result(1.0)], [WORK], [])
    assert "**A rehearsal" in text
    assert text.count("not compared") == 6
    assert "reached |" not in text


def test_mission_report_states_that_nothing_was_measured() -> None:
    empty = Result(search=view(state="failed", reason="not one could be measured", best=None, device=L4), best=None)
    assert "Nothing was measured: search 3 is failed (not one could be measured)." in report(empty)


@pytest.mark.parametrize("users", ["process 41 (python3)"])
def test_mission_report_warns_about_a_shared_gpu(users: str) -> None:
    shared = result(18.0)
    assert shared.best is not None
    spoilt = replace(shared, best=replace(shared.best, environment={"shared_with": users}))
    assert f"also used by {users}: the times are not reliable" in report(spoilt)


def test_mission_report_marks_statements_that_are_based_on_quick_samples() -> None:
    quick = result(18.0)
    text = report(replace(quick, search=replace(quick.search, champion=None)))
    assert "| reached (by quick samples, not confirmed) |" in text
    assert "open: the time is 1.12× the goal (by quick samples, not confirmed)" in text
    assert "the kernel reaches 49% of this limit (by quick samples, not confirmed)." in text
    assert "not confirmed)" not in report(quick)


def test_mission_report_does_not_compare_a_confirmed_time_with_a_quick_baseline() -> None:
    """The champion of an earlier search was confirmed without baselines."""
    earlier = result(18.0)
    verdict = replace(VERDICT, baseline=None, baseline_speedup=None)
    champion = replace(CHAMPION, time_us=18.0, verdict=verdict)
    text = report(replace(earlier, search=replace(earlier.search, champion=champion)))
    assert "Decision: open; no baseline was timed with the champion, so its gain is not known." in text
