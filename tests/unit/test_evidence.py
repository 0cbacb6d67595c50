"""Challengers are promoted only with the evidence that their device kind requires."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from evo.device import DeviceKind, kinds
from evo.promotion import Verdict, decide, required
from evo.promotion.policy import Policy
from evo.trial.outcome import CaseError, Crashed
from evo.trial.results import ConfirmReport, OutputChecks, OverwriteCheck, Repeat, Repetition, Report, Sanitized
from evo.trial.timing import Timing

FAST = Timing(samples_us=(50.0,) * 20)
RIGHT = CaseError(case="nominal", output="y", rel_l2=0.0, max_abs=0.0, rel_l2_limit=1.0, max_abs_limit=1.0)
POLICY = Policy(confirm_processes=3)
REPETITION = Repetition(new=FAST, known=FAST, elements=1000)
WHOLE = ConfirmReport(
    challenger=FAST,
    challenger_again=FAST,
    cases=(RIGHT,),
    answers=OutputChecks(judged=60),
    overwrite_check=OverwriteCheck(answered=FAST, poisoned=FAST, repetition=REPETITION),
    sanitizers=(Sanitized(tool="address", skipped="not installed"),),
    repeats=(Repeat(challenger=FAST, other=None, repetition=REPETITION),) * 2,
    environment={"separation": "another user, Landlock, seccomp"},
)
"""A report without an incumbent. It contains all evidence that is required for a CPU."""


def decided(report: ConfirmReport, kind: DeviceKind = "cpu", policy: Policy = POLICY) -> Verdict:
    return decide(report, policy, 1, np.random.default_rng(0), kind=kind)


def test_challenger_with_complete_evidence_is_promoted() -> None:
    verdict = decided(WHOLE)
    assert verdict.promote
    assert verdict.rules[-1].name == "evidence"
    assert verdict.rules[-1].passed


def test_kernel_without_inputs_is_promoted_without_a_check_on_new_inputs() -> None:
    report = replace(WHOLE, overwrite_check=OverwriteCheck(answered=FAST, poisoned=FAST))
    assert decide(report, POLICY, 1, np.random.default_rng(0), kind="cpu", inputs=False).promote


@pytest.mark.parametrize("kind", [ConfirmReport, Report])
def test_overwrite_check_in_a_report_of_an_older_worker_is_read(kind: Any) -> None:
    written = TypeAdapter(kind).dump_python(WHOLE, mode="json")
    assert "witness" not in written
    older = {"witness" if name == "overwrite_check" else name: value for name, value in written.items()}
    assert TypeAdapter(kind).validate_json(json.dumps(older)) == WHOLE


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("left_out", "words"),
    [
        ({"cases": ()}, "correctness cases (cases)"),
        ({"answers": None}, "(answers: 0 of at least 20)"),
        ({"answers": OutputChecks(judged=19)}, "(answers: 19 of at least 20)"),
        ({"overwrite_check": None}, "(overwrite_check)"),
        ({"overwrite_check": OverwriteCheck(answered=FAST, poisoned=FAST)}, "(overwrite_check.repetition)"),
        ({"sanitizers": ()}, "(sanitizers)"),
        ({"repeats": ()}, "1 of 3 fresh processes (repeats)"),
        ({"repeats": WHOLE.repeats[:1]}, "2 of 3 fresh processes (repeats)"),
        ({"repeats": (Repeat(challenger=Timing(samples_us=(50.0,)), other=None),) * 2}, "rounds (repeats.0)"),
        ({"repeats": (WHOLE.repeats[0], replace(WHOLE.repeats[1], repetition=None))}, "(repeats.1.repetition)"),
        ({"challenger_again": None}, "(challenger_again)"),
        (
            {"challenger": Timing(samples_us=(50.0,)), "challenger_again": Timing(samples_us=(50.0,))},
            "1 of at least 5 rounds (challenger)",
        ),
    ],
)
def test_challenger_with_missing_evidence_is_not_promoted(
    kind: DeviceKind, left_out: dict[str, Any], words: str
) -> None:
    verdict = decided(replace(WHOLE, **left_out), kind)
    assert not verdict.promote
    assert words in verdict.rules[-1].text
    assert verdict.summary.startswith("Not promoted.")


def test_cpu_report_must_state_the_isolation_of_the_candidate() -> None:
    assert not decided(replace(WHOLE, environment={})).promote
    assert decided(replace(WHOLE, environment={}), "cuda").promote


@pytest.mark.parametrize(
    ("held", "demanded", "promoted"),
    [
        ("another user, Landlock, seccomp", "full", True),
        ("another user, seccomp", "full", False),
        ("another user, seccomp", "user", True),
        ("Landlock, seccomp", "user", False),
        ("Landlock", "confined", True),
        ("none", "confined", False),
        ("none", "none", True),
        ("another user, Landlock, seccomp; none", "confined", False),
    ],
)
def test_policy_can_require_a_level_of_kernel_separation(held: str, demanded: str, promoted: bool) -> None:
    policy = replace(POLICY, min_separation=demanded)
    verdict = decided(replace(WHOLE, environment={"separation": held}), policy=policy)
    assert verdict.promote is promoted
    if not promoted:
        assert f"the policy requires {demanded}. Missing: " in verdict.summary


@pytest.mark.parametrize(
    ("held", "promoted"), [("another user, Landlock, seccomp", True), ("Landlock, seccomp", False)]
)
def test_policy_that_requires_a_sandbox_requires_full_separation(held: str, promoted: bool) -> None:
    policy = replace(POLICY, untrusted="sandbox")
    assert decided(replace(WHOLE, environment={"separation": held}), policy=policy).promote is promoted


def test_cuda_challenger_needs_no_process_separation() -> None:
    assert decided(replace(WHOLE, environment={}), "cuda", replace(POLICY, min_separation="full")).promote


def test_challenger_on_a_replay_device_is_promoted_without_correctness_evidence() -> None:
    samples = ConfirmReport(challenger=FAST, challenger_again=FAST)
    assert decided(samples, "replay").promote
    assert not decided(samples, "estimate").promote
    assert not decided(replace(samples, challenger_again=None), "replay").promote


def test_policy_with_one_confirmation_process_needs_no_additional_processes() -> None:
    assert decided(replace(WHOLE, repeats=()), policy=Policy(confirm_processes=1)).promote


def test_slower_challenger_needs_no_additional_processes_or_sanitizers() -> None:
    verdict = decided(replace(WHOLE, incumbent=Timing(samples_us=(40.0,) * 20), repeats=(), sanitizers=()))
    assert not verdict.promote
    assert verdict.rules[-1].passed


def test_verdict_of_a_failed_confirmation_has_a_single_rule() -> None:
    failed = ConfirmReport(failure=Crashed(stage="verify", reason="SIGSEGV"), failed="challenger")
    assert [rule.name for rule in decided(failed).rules] == ["correct"]


def test_device_kinds_that_run_kernels_require_correctness_evidence() -> None:
    proved = {name for name in kinds() if required(name).proof}
    assert {"cpu", "cuda", "estimate"} <= proved
    assert "replay" not in proved
    assert [name for name in kinds() if required(name).environment] == ["cpu"]
