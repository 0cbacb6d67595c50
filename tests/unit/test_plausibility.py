"""What no report may say: figures that no device can give, whichever field they stand in."""

from dataclasses import replace
from typing import Any

import pytest

from api.figures import check_figures
from api.plausibility import check
from evo.device import Ceilings, Device
from evo.errors import InvalidInput
from evo.job import ConfirmReport, EvaluateReport, Profiled, Report, Stages
from evo.outcome import CaseError, Estimated, Measured, OverResources, Pruned, TimedOut, WrongAnswer
from evo.timing import Timing

FAIR = Timing(samples_us=(1e-6, 20.0, 1e12), calls_per_sample=100_000, anchor_us=0.0, floor_us=0.0)
SAID = EvaluateReport(outcome=Measured(timing=FAIR, resources={"registers": 255.0}), stages=Stages(wait_s=-1e-9))
FAR_OFF = CaseError(case="tail", output="out", rel_l2=1e300, max_abs=3e38, rel_l2_limit=1e-5, max_abs_limit=1e-4)


def measured(**timing: Any) -> Report:
    return replace(SAID, outcome=Measured(timing=replace(FAIR, **timing)))


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
    ],
)
def test_a_figure_that_cannot_be_is_named(report: Report, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check(report)
    assert refused.value.field == f"report.{field}"


def test_what_can_be_is_taken() -> None:
    check(SAID)
    check(replace(SAID, outcome=WrongAnswer(reason="garbage", cases=(FAR_OFF,))))


def test_so_are_devices_looked_at() -> None:
    device = Device(kind="cpu", model="m", architecture="a", uuid="u", limits={"cores": 2.0})
    check_figures("devices", [device])
    none = Ceilings(flops_per_s={"float32": 0.0}, bytes_per_s=1e9, source="table")
    with pytest.raises(InvalidInput, match=r"devices\.0\.ceilings\.flops_per_s\.float32"):
        check_figures("devices", [replace(device, ceilings=none)])
