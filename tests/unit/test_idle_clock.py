"""The idle clock counts the seconds in which a device is idle although jobs are available."""

import pytest

from evo.trial.outcome import Measured
from evo.trial.results import EvaluateReport, Stages
from evo.trial.timing import Timing
from tests.unit.test_pipeline import add, pipeline
from workers.daemon.idle_clock import IdleClock
from workers.daemon.pipeline import Performed, Prepared


class Clock:
    """A fake clock that advances only on request."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    def pass_(self, seconds: float) -> None:
        self.now_s += seconds


def test_idle_clock_counts_only_seconds_without_a_working_thread() -> None:
    clock = Clock()
    meter = IdleClock(clock)
    clock.pass_(1)
    with meter.working():
        clock.pass_(10)
        with meter.working():  # represents another thread
            clock.pass_(10)
        clock.pass_(10)
    clock.pass_(2)
    assert meter.still_s == 3
    assert meter.take() == 3
    clock.pass_(4)
    assert meter.take() == 4


def test_idle_time_is_not_negative_after_waiting_time_is_subtracted() -> None:
    clock = Clock()
    meter = IdleClock(clock)
    clock.pass_(5)
    meter.excuse(3)
    assert meter.still_s == 2
    meter.excuse(3)
    assert meter.take() == 0


def test_job_stages_include_a_share_of_the_claim_and_of_the_idle_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs were claimed in 0.5 s. The job ended 3 s after the claim; 1.3 s of this time were spent waiting."""
    monkeypatch.setattr("workers.daemon.idle_clock.IdleClock.take", lambda meter: 0.5)
    with pipeline("cpu", 2, monkeypatch) as (line, builds):
        add(line, builds, 1, 2)
        first, second = line.empty()
    assert (first.share_s, second.share_s) == (0.25, 0.25)
    stages = Stages(compile_s=0.7, verify_s=0.2, measure_s=0.4)
    report = EvaluateReport(outcome=Measured(timing=Timing(samples_us=(1.0,))), stages=stages)
    begun_s = first.claimed_s + 0.3  # seconds until the build began
    prepared = Prepared(built={}, begun_s=begun_s, ended_s=begun_s + 0.8)
    performed_s = prepared.ended_s + 0.9  # mostly time of other jobs of the batch
    done = Performed(report=report, lock_s=0.1, proof_s=0.2)
    told = done.accounted(first, prepared, begun_s=performed_s, ended_s=performed_s + 1.0, still_s=0.05).stages
    assert told.total_s == pytest.approx(3.0)
    assert told.wait_s == pytest.approx(0.3 + 0.9 + 0.1)
    assert told.overhead_s == pytest.approx(0.25 + 0.05 + (0.8 - 0.7) + (1.0 - 0.2 - 0.4 - 0.1 - 0.2))
