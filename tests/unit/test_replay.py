"""The replay device answers jobs from a recorded space instead of running them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evo.errors import Conflict, EvoError
from evo.messages.job import Baseline, Confirm, Evaluate, Job
from evo.space.recording import Recording
from evo.trial.objective import Objective
from evo.trial.outcome import InvalidConfig, Measured
from evo.trial.results import ConfirmReport, EvaluateReport, Report
from templates.registry import find
from tests.unit.test_pipeline import lease
from workers.backends import driver
from workers.build.families import Assignment, Copy
from workers.jobs.replayed import Replay

PACKAGE = find(str(Path(__file__).parent.parent / "data" / "synthetic.json"))


@pytest.fixture
def recording() -> Recording:
    assert PACKAGE.recording is not None
    return PACKAGE.recording


def performed(job: Job, time_scale: float = 0.0) -> Report:
    work = Assignment(terms=lease(1).terms, copy=Copy(package=PACKAGE, folder=Path()))
    return Replay(time_scale).perform(work, job, {})


def test_replayed_config_has_its_recorded_outcome(recording: Recording) -> None:
    for key in list(recording.entries)[:50]:
        report = performed(Evaluate(number=0, config=recording.entries[key].config))
        assert isinstance(report, EvaluateReport)
        assert report.outcome == recording.outcome(key)


def test_replayed_config_outside_the_recording_is_invalid() -> None:
    report = performed(Evaluate(number=0, config={"tile_m": 1}))
    assert isinstance(report, EvaluateReport)
    assert isinstance(report.outcome, InvalidConfig)


def of_kind(recording: Recording, *, measured: bool) -> Confirm:
    entries = [each for each in recording.entries.values() if isinstance(each.outcome, Measured) == measured]
    return Confirm(challenger=entries[0].config, incumbent=entries[1].config, seed=3)


def test_replayed_confirmation_draws_deterministically_from_recorded_samples(recording: Recording) -> None:
    job = of_kind(recording, measured=True)
    first, again = performed(job), performed(job)
    assert isinstance(first, ConfirmReport)
    assert first == again
    assert first.challenger is not None
    assert first.incumbent is not None
    assert len(first.challenger.samples_us) == lease(1).terms.policy.confirm_samples
    outcome = recording.outcome(",".join(str(value) for value in job.challenger.values()))
    assert isinstance(outcome, Measured)
    assert set(first.challenger.samples_us) <= set(outcome.timing.samples_us)


def test_replayed_confirmation_of_a_failed_config_fails(recording: Recording) -> None:
    report = performed(of_kind(recording, measured=False))
    assert isinstance(report, ConfirmReport)
    assert report.failed == "challenger"
    assert report.failure is not None


def test_replay_device_can_wait_for_the_recorded_time_of_a_config(recording: Recording) -> None:
    key, entry = max(recording.entries.items(), key=lambda item: recording.costs(item[0]).total_s)
    scale = 0.02 / recording.costs(key).total_s
    report = performed(Evaluate(number=0, config=entry.config), time_scale=scale)
    assert isinstance(report, EvaluateReport)
    assert report.stages.measure_s >= 0.02


def test_replay_device_has_no_baselines_and_refuses_a_family_without_recording() -> None:
    assert performed(Baseline()).timings == {}
    package = SimpleNamespace(recording=None, family=SimpleNamespace(name="sdpa"))
    copy: Any = SimpleNamespace(package=package, family=package.family)
    work = Assignment(terms=lease(1).terms, copy=copy)
    with pytest.raises(EvoError, match="sdpa is not a recording"):
        Replay().perform(work, Baseline(), {})


def test_replay_device_is_always_available_and_neither_compiles_nor_runs(tmp_path: Path) -> None:
    (device,) = driver("replay").discover(tmp_path)
    assert (device.kind, device.ceilings) == ("replay", None)
    with pytest.raises(Conflict, match="no kernels to compile"):
        driver("replay").compiler()
    with pytest.raises(Conflict, match="no kernels to run"):
        driver("replay").open(device, Objective(), tmp_path)
