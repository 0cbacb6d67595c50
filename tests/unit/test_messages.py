"""Messages round-trip through JSON with the adapters of the API."""

from dataclasses import replace

import pytest
from pydantic import TypeAdapter, ValidationError

from evo.device import Ceilings, Device
from evo.messages.job import Baseline, Confirm, Evaluate, FamilyRef, Job, Lease, SearchTerms
from evo.messages.view import AblationView, ChampionView, RooflineView, SearchView, TrialView, WorkerView
from evo.promotion.policy import Policy
from evo.trial.objective import Objective
from evo.trial.outcome import Cancelled, CaseError, Crashed, Measured, Outcome, Pruned, WrongAnswer
from evo.trial.results import ConfirmReport, EvaluateReport, Report
from evo.trial.timing import Bars, Timing
from tests.unit.views import DEVICE, view

TIMING = Timing(samples_us=(3.0, 1.0, 2.0), calls_per_sample=7, anchor_us=5.0, floor_us=0.1)
CASE = CaseError(case="tail", output="out", rel_l2=None, max_abs=None, rel_l2_limit=1e-5, max_abs_limit=1e-4)
OUTCOMES: list[Outcome] = [
    Measured(timing=TIMING, cases=(CASE,), resources={"registers": 96}),
    Pruned(timing=TIMING, threshold_us=1.5),
    WrongAnswer(reason="NaN in out", cases=(CASE,)),
    Crashed(stage="verify", reason="SIGSEGV"),
    Cancelled(),
]
TERMS = SearchTerms(
    search_id=1,
    family=FamilyRef(name="sdpa", digest="ab"),
    problem={"S": 256, "causal": False, "dtype": "float32", "scale": 0.5},
    device=Device(
        kind="cpu",
        model="m",
        architecture="x86_64",
        uuid="u",
        limits={"cores": 2},
        ceilings=Ceilings(flops_per_s={"float32": 1e11}, bytes_per_s=1e10, source="measured"),
    ),
    objective=Objective(),
    policy=Policy(),
    seed=7,
)


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: outcome.kind)
def test_outcomes_round_trip_through_json(outcome: Outcome) -> None:
    adapter: TypeAdapter[Outcome] = TypeAdapter(Outcome)
    assert adapter.validate_json(adapter.dump_json(outcome)) == outcome


JOBS: list[Job] = [
    Evaluate(number=3, config={"BLOCK_M": 4, "PACK": "whole", "FAST": True}, bars=Bars(prune_us=9.5)),
    Baseline(),
    Confirm(challenger={"BLOCK_M": 4}, incumbent=None, seed=1),
]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.kind)
def test_leases_round_trip_through_json(job: Job) -> None:
    adapter = TypeAdapter(Lease)
    lease = Lease(attempt_id=1, token="t", lease_s=30, terms=TERMS, job=job)
    assert adapter.validate_json(adapter.dump_json(lease)) == lease


REPORTS: list[Report] = [
    EvaluateReport(outcome=OUTCOMES[0], artefacts={"source": "d1"}),
    ConfirmReport(failure=Crashed(stage="measure", reason="SIGABRT"), failed="challenger"),
]


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.kind)
def test_reports_round_trip_through_json(report: Report) -> None:
    adapter: TypeAdapter[Report] = TypeAdapter(Report)
    assert adapter.validate_json(adapter.dump_json(report)) == report


def test_config_values_keep_their_types_in_json() -> None:
    config = (
        TypeAdapter(Evaluate).validate_json('{"number": 0, "config": {"A": true, "B": 1, "C": 1.0, "D": "1"}}').config
    )
    assert [type(value) for value in config.values()] == [bool, int, float, str]


def test_timing_has_median_and_interquartile_range() -> None:
    assert (TIMING.median_us, TIMING.iqr_us) == (2.0, 1.0)


@pytest.mark.parametrize("view", [SearchView, ChampionView, TrialView, WorkerView, AblationView])
def test_schemas_of_large_views_are_built_when_first_used(view: type) -> None:
    adapter: TypeAdapter[object] = TypeAdapter(view)
    assert not adapter.pydantic_complete
    with pytest.raises(ValidationError, match="Field required"):
        adapter.validate_json(b"{}")
    assert adapter.pydantic_complete


@pytest.mark.parametrize(
    ("floor_us", "ceilings", "reason"),
    [
        (490.0, True, None),
        (0.0, True, "none: all bytes stay in the cache"),
        (None, True, "the family has no [work] table"),
        (None, False, "the device's limits are unknown"),
    ],
)
def test_search_view_states_why_the_device_limit_of_a_search_is_unknown(
    floor_us: float | None, ceilings: bool, reason: str | None
) -> None:
    limits = Ceilings(flops_per_s={"float32": 1e9}, bytes_per_s=1e9, source="table") if ceilings else None
    roofline = None if floor_us is None else RooflineView(floor_us=floor_us, bound="memory", share_of_best=0.5)
    assert view(roofline=roofline, device=replace(DEVICE, ceilings=limits)).no_limit == reason
