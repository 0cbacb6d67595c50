"""Reports with values that no device can produce are refused in every field."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from api.scheduler.results.validation import check, check_answer, check_figures
from evo.device import Ceilings, Device
from evo.device.estimate.target import architectures, known
from evo.errors import InvalidInput
from evo.messages.job import Confirm, Evaluate, FamilyRef, Job, SearchTerms
from evo.promotion.policy import Policy
from evo.trial.objective import PROTOCOL_VERSION, Objective
from evo.trial.outcome import CaseError, Estimated, Impossible, Measured, OverResources, Pruned, TimedOut, WrongAnswer
from evo.trial.results import (
    Changing,
    ConfirmReport,
    EvaluateReport,
    OutputChecks,
    OverwriteCheck,
    Profiled,
    Repeat,
    Repetition,
    Report,
    Stages,
)
from evo.trial.timing import Timing

FAIR = Timing(samples_us=(1e-6, 20.0, 1e12), calls_per_sample=100_000, anchor_us=0.0, floor_us=0.0)
SAID = EvaluateReport(outcome=Measured(timing=FAIR, resources={"registers": 255.0}), stages=Stages(wait_s=-1e-9))
FAR_OFF = CaseError(case="tail", output="out", rel_l2=1e300, max_abs=3e38, rel_l2_limit=1e-5, max_abs_limit=1e-4)


FIRST = ConfirmReport(challenger=FAIR, challenger_again=FAIR, baselines={"library": FAIR})
SIDES = replace(FIRST, incumbent=FAIR)
WRONG, ONE = Timing(samples_us=(20.0, 1e308, 20.0)), Timing(samples_us=(20.0,))
CALLS = Repetition(new=FAIR, known=FAIR, same=FAIR, elements=1)
CHANGED = Changing(different=FAIR, same=FAIR)
CHECKED = OverwriteCheck(answered=FAIR, poisoned=FAIR, repeated=FAIR, repetition=CALLS, changing=CHANGED)
ALONE, BOTH = Repeat(challenger=FAIR, other=None), Repeat(challenger=FAIR, other=FAIR)
TERMS = SearchTerms(
    search_id=1,
    family=FamilyRef(name="toy", digest="ab" * 32),
    problem={},
    device=Device(kind="cpu", model="m", architecture="a", uuid="u"),
    objective=Objective(),
    policy=Policy(),
    seed=0,
)
WITH_INCUMBENT = Confirm(challenger={"A": 1}, incumbent={"A": 2}, seed=0)
EVALUATE = Evaluate(number=0, config={"A": 1})


def measured(**timing: Any) -> Report:
    return replace(SAID, outcome=Measured(timing=replace(FAIR, **timing)))


def checked(**series: Any) -> Report:
    return replace(FIRST, overwrite_check=replace(CHECKED, **series))


def repeated(calls: Repetition) -> Report:
    return replace(FIRST, repeats=(replace(ALONE, repetition=calls),))


def refused_field(checked: Callable[[], object]) -> str | None:
    """Return the field that a check refuses; None if the check accepts the report."""
    try:
        checked()
    except InvalidInput as error:
        return error.field
    return None


@pytest.mark.parametrize(
    ("report", "field"),
    [
        (measured(samples_us=(20.0, 1e308)), "outcome.timing.samples_us.1"),
        (measured(samples_us=(1e-320,)), "outcome.timing.samples_us.0"),
        (measured(samples_us=(-1.0,)), "outcome.timing.samples_us.0"),
        (measured(samples_us=(float("nan"),)), "outcome.timing.samples_us.0"),
        (measured(samples_us=()), "outcome.timing.samples_us"),
        (measured(anchor_us=float("inf")), "outcome.timing.anchor_us"),
        (measured(calls_per_sample=10**400), "outcome.timing.calls_per_sample"),
        (replace(SAID, outcome=Pruned(timing=FAIR, threshold_us=-1e308)), "outcome.threshold_us"),
        (replace(SAID, outcome=Estimated(time_us=0.0)), "outcome.time_us"),
        (replace(SAID, outcome=Measured(timing=FAIR, resources={"stack": 1e300})), "outcome.resources.stack"),
        (replace(SAID, outcome=OverResources(resource="r", used=1e300, limit=1.0)), "outcome.used"),
        (replace(SAID, outcome=TimedOut(stage="verify", limit_s=1e308)), "outcome.limit_s"),
        (replace(SAID, stages=Stages(measure_s=1e308)), "stages.measure_s"),
        (replace(SAID, stages=Stages(overhead_s=-1e308)), "stages.overhead_s"),
        (
            ConfirmReport(profiles={"challenger": Profiled(tool="t", figures={"x": 1e200})}),
            "profiles.challenger.figures.x",
        ),
        (measured(calls_per_sample=0), "outcome.timing.calls_per_sample"),
        (measured(calls_per_sample=10**16), "outcome.timing.calls_per_sample"),
        (measured(protocol=-1), "outcome.timing.protocol"),
        (replace(SAID, outcome=Measured(timing=FAIR, cases=(FAR_OFF,))), "outcome.cases.0"),
        (
            replace(SAID, outcome=Measured(timing=FAIR, cases=(replace(FAR_OFF, rel_l2=-1.0),))),
            "outcome.cases.0.rel_l2",
        ),
        (replace(SAID, outcome=Pruned(timing=FAIR, threshold_us=20.0)), "outcome.threshold_us"),
        (replace(SAID, outcome=Impossible(timing=FAIR, floor_us=20.0)), "outcome.floor_us"),
        (ConfirmReport(answers=OutputChecks(judged=10**16)), "answers.judged"),
        (ConfirmReport(answers=OutputChecks(judged=1, wrong=2)), "answers.wrong"),
        (ConfirmReport(answers=OutputChecks(judged=-1)), "answers.judged"),
        (replace(SIDES, repeats=(BOTH,)), "repeated_against"),
        (replace(SIDES, repeats=(BOTH,), repeated_against="numpy"), "repeated_against"),
        (replace(SIDES, repeats=(ALONE,), repeated_against="incumbent"), "repeats.0.other"),
        (replace(FIRST, repeats=(BOTH,), repeated_against="incumbent"), "repeated_against"),
        (replace(FIRST, repeats=(BOTH,), repeated_against="numpy"), "repeated_against"),
        (replace(FIRST, repeats=(BOTH,)), "repeats.0.other"),
        (checked(repeated=WRONG), "overwrite_check.repeated.samples_us.1"),
        (checked(repetition=replace(CALLS, new=WRONG)), "overwrite_check.repetition.new.samples_us.1"),
        (checked(repetition=replace(CALLS, same=WRONG)), "overwrite_check.repetition.same.samples_us.1"),
        (checked(repetition=replace(CALLS, same=ONE)), "overwrite_check.repetition"),
        (checked(changing=replace(CHANGED, different=WRONG)), "overwrite_check.changing.different.samples_us.1"),
        (checked(changing=replace(CHANGED, same=ONE)), "overwrite_check.changing"),
        (repeated(replace(CALLS, known=WRONG)), "repeats.0.repetition.known.samples_us.1"),
        (repeated(replace(CALLS, known=ONE)), "repeats.0.repetition"),
    ],
)
def test_error_names_the_report_field_with_an_impossible_value(report: Report, field: str) -> None:
    assert refused_field(lambda: check(report)) == f"report.{field}"


@pytest.mark.parametrize(
    "report",
    [
        SAID,
        replace(SAID, outcome=WrongAnswer(reason="garbage", cases=(FAR_OFF,))),
        replace(SIDES, repeats=(BOTH,), repeated_against="incumbent"),
        replace(FIRST, repeats=(BOTH,), repeated_against="library"),
        replace(FIRST, repeats=(ALONE,)),
        replace(FIRST, overwrite_check=CHECKED),
        repeated(CALLS),
    ],
)
def test_report_with_possible_values_is_accepted(report: Report) -> None:
    assert refused_field(lambda: check(report)) is None


@pytest.mark.parametrize(
    ("report", "job", "field"),
    [
        (FIRST, WITH_INCUMBENT, "report.incumbent"),
        (SIDES, replace(WITH_INCUMBENT, incumbent=None), "report.incumbent"),
        (measured(protocol=1), EVALUATE, "report.outcome.timing.protocol"),
        (measured(protocol=PROTOCOL_VERSION + 1), EVALUATE, "report.outcome.timing.protocol"),
        (
            replace(SIDES, incumbent=replace(FAIR, protocol=1)),
            WITH_INCUMBENT,
            "report.incumbent.protocol",
        ),
        (
            replace(SIDES, repeats=(replace(BOTH, other=replace(FAIR, protocol=1)),), repeated_against="incumbent"),
            WITH_INCUMBENT,
            "report.repeats.0.other.protocol",
        ),
    ],
)
def test_report_that_does_not_match_its_job_is_refused(report: Report, job: Job, field: str) -> None:
    assert refused_field(lambda: check_answer(report, job, TERMS)) == field


@pytest.mark.parametrize(
    ("report", "job"),
    [
        (SAID, EVALUATE),
        (SIDES, WITH_INCUMBENT),
        (FIRST, replace(WITH_INCUMBENT, incumbent=None)),
        (ConfirmReport(failure=TimedOut(stage="measure", limit_s=1.0), failed="incumbent"), WITH_INCUMBENT),
    ],
)
def test_report_of_the_kind_of_its_job_is_accepted(report: Report, job: Job) -> None:
    assert refused_field(lambda: check_answer(report, job, TERMS)) is None


def test_only_replayed_reports_may_have_an_older_timing_protocol() -> None:
    replay = replace(TERMS, device=replace(TERMS.device, kind="replay"))
    assert refused_field(lambda: check_answer(measured(protocol=1), EVALUATE, replay)) is None
    assert (
        refused_field(lambda: check_answer(measured(protocol=1), EVALUATE, TERMS)) == "report.outcome.timing.protocol"
    )


def test_device_with_an_impossible_peak_rate_is_refused() -> None:
    device = Device(kind="cpu", model="m", architecture="a", uuid="u", limits={"cores": 2.0})
    check_figures("devices", [device])
    none = Ceilings(flops_per_s={"float32": 0.0}, bytes_per_s=1e9, source="table")
    with pytest.raises(InvalidInput, match=r"devices\.0\.ceilings\.flops_per_s\.float32"):
        check_figures("devices", [replace(device, ceilings=none)])


@pytest.mark.parametrize("target", architectures())
def test_plausible_limits_of_known_devices_are_accepted(target: str) -> None:
    check_figures("device", known(target))
