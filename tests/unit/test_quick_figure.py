"""A rule reports a large difference between the confirmed and the quick time."""

import numpy as np
import pytest

from evo.promotion import Known, Quick, Rule, judge
from evo.promotion.policy import Policy
from evo.trial.results import ConfirmReport
from evo.trial.timing import Timing


def steady(time_us: float) -> Timing:
    return Timing(samples_us=tuple(time_us * (1 + 0.001 * (index % 5 - 2)) for index in range(20)))


def rule_of(quick: Quick | None, confirmed: Timing, policy: Policy | None = None, **baselines: float) -> Rule | None:
    timings = {name: steady(time_us) for name, time_us in baselines.items()}
    report = ConfirmReport(challenger=confirmed, challenger_again=confirmed, baselines=timings)
    verdict = judge(report, policy or Policy(), 1, np.random.default_rng(0), Known(quick=quick))
    assert verdict.quick_gap is None or not verdict.quick_gap.required
    return next((rule for rule in verdict.rules if rule.name == "quick figure"), None)


def test_confirmed_time_far_above_the_quick_time_is_reported_with_likely_causes_and_advice() -> None:
    found = rule_of(Quick(timing=steady(282.6), baselines={"numpy": steady(1573.0)}), steady(10480.0), numpy=2065.0)
    assert found is not None and not found.passed and not found.required
    assert found.figure == pytest.approx(37.08, rel=1e-3) and found.threshold == 1.25
    for part in (
        "The confirmed time is 10.48 ms, compared with 282.6 µs in the quick samples, 37.1× as long",
        "more than 25%",
        "numpy took 1.31× its earlier time, so the device does not explain the difference",
        "fresh process",
        "Use the confirmed time",
    ):
        assert part in found.text


def test_device_slowdown_is_stated_as_the_cause_of_a_confirmed_time_above_the_quick_time() -> None:
    found = rule_of(Quick(timing=steady(100.0), baselines={"numpy": steady(50.0)}), steady(200.0), numpy=98.0)
    assert found is not None and not found.passed
    assert "the whole device changed" in found.text and "idle device" in found.text


def test_trial_confirmed_faster_than_its_quick_time_is_reported_as_ranked_too_low() -> None:
    found = rule_of(Quick(timing=steady(200.0), baselines={"numpy": steady(50.0)}), steady(100.0), numpy=50.0)
    assert found is not None and not found.passed
    assert "2.00× as fast" in found.text and "ranked too low" in found.text


def test_confirmed_time_above_the_quick_time_has_no_known_cause_without_a_common_baseline() -> None:
    found = rule_of(Quick(timing=steady(100.0), baselines={"numpy": steady(50.0)}), steady(200.0))
    assert found is not None and "No baseline ran in both sessions" in found.text


def test_policy_limits_the_gap_between_confirmed_and_quick_times() -> None:
    quick = Quick(timing=steady(100.0))
    assert (found := rule_of(quick, steady(110.0))) is not None and found.passed and "10.0% more" in found.text
    assert (found := rule_of(quick, steady(110.0), Policy(maximum_quick_gap=0.05))) is not None and not found.passed
    assert rule_of(quick, steady(110.0), Policy(maximum_quick_gap=None)) is None
    assert rule_of(None, steady(110.0)) is None


def test_gap_between_confirmed_and_quick_times_within_the_noise_is_accepted() -> None:
    spread = Timing(samples_us=(50.0, 60.0, 100.0, 200.0, 210.0))
    found = rule_of(Quick(timing=spread), steady(140.0))
    assert found is not None and found.passed
