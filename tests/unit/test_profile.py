"""The policy's requirements on profiles are applied, and reports show the profile."""

from collections.abc import Mapping

import numpy as np
import pytest

from evo.promotion import Rule, judge
from evo.promotion.policy import POLICIES, Policy, policy_from
from evo.promotion.rules.profile import profile_rows
from evo.trial.results import ConfirmReport, Profiled
from evo.trial.timing import Timing

GOOD = {
    "tensor_active": 0.42,
    "achieved_occupancy": 0.3,
    "sector_efficiency": 0.9,
    "l2_hit_rate": 0.7,
    "dram_share": 0.2,
}
BEFORE = {**GOOD, "l2_hit_rate": 0.6, "dram_share": 0.35}


def rules(profiles: Mapping[str, Profiled], policy: Policy) -> dict[str, Rule]:
    fast, slow = (Timing(samples_us=(each,) * 20) for each in (50.0, 100.0))
    report = ConfirmReport(challenger=fast, challenger_again=fast, incumbent=slow, profiles=profiles)
    return {rule.name: rule for rule in judge(report, policy, 1, np.random.default_rng(0)).rules}


def profiled(**sides: Mapping[str, float]) -> dict[str, Profiled]:
    return {side: Profiled(tool="ncu", figures=figures) for side, figures in sides.items()}


def test_profile_rule_lists_the_unmet_requirements() -> None:
    final = POLICIES["l4-final"]
    assert rules(profiled(challenger=GOOD, incumbent=BEFORE), final)["profile"].passed
    unmet = rules(profiled(challenger={**GOOD, "tensor_active": 0.05}, incumbent=GOOD), final)["profile"]
    assert not unmet.passed
    assert unmet.required
    assert unmet.figure == 3
    assert "tensor pipe active at least 20% (found 5.0%)" in unmet.text
    assert "DRAM throughput, fraction of the peak lower by at least 10%" in unmet.text


def test_requirements_on_changes_of_profiler_counters_apply_only_with_an_incumbent() -> None:
    assert rules(profiled(challenger=GOOD), POLICIES["l4-final"])["profile"].passed


def test_missing_profiler_counter_does_not_meet_its_requirement() -> None:
    policy = policy_from({"min_fp8_operations": 1})
    rule = rules(profiled(challenger=GOOD), policy)["profile"]
    assert not rule.passed
    assert "FP8 tensor operations" in rule.text
    assert "not measured" in rule.text


@pytest.mark.parametrize("required", [False, True])
def test_missing_profile_forbids_promotion_only_if_the_policy_requires_it(required: bool) -> None:
    policy = policy_from({"base": "l4-notes", "require_profile": required})
    skipped = {"challenger": Profiled(tool="ncu", skipped="not installed")}
    for profiles, reason in ((skipped, "ncu: not installed"), ({}, "this device has no profiler")):
        rule = rules(profiles, policy)["profile"]
        assert (rule.passed, rule.required) == (False, required)
        assert reason in rule.text


def test_policy_without_profile_requirements_has_no_profile_rule() -> None:
    assert "profile" not in rules(profiled(challenger=GOOD), Policy())


def test_profile_table_shows_challenger_and_incumbent() -> None:
    rows = {title: cells for title, *cells in profile_rows(profiled(challenger=GOOD, incumbent=BEFORE))}
    assert rows["L2 hit rate"] == ["70%", "60%", "+10.0 points"]
    assert "registers per thread" not in rows
