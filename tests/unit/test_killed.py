"""A job whose processes were killed by another process is repeated a few times."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from evo.trial.outcome import Crashed, Measured, WrongAnswer
from evo.trial.results import Ablated, AblateReport, BaselineReport, ConfirmReport, EvaluateReport, Report, Stages
from evo.trial.timing import Timing
from workers.runner import killed
from workers.runner.killed import MOST_ATTEMPTS, KilledError, memory_kills, undisturbed
from workers.system.exit_status import sent_from_outside

RUNNER = Crashed(stage="measure", reason="killed by SIGKILL", killed="runner")
KERNEL = Crashed(stage="verify", reason="killed by SIGKILL", killed="kernel")
OWN_FAULT = Crashed(stage="verify", reason="killed by SIGSEGV")
FAIR = Timing(samples_us=(1.0,))
MEASURED = EvaluateReport(outcome=Measured(timing=FAIR), stages=Stages(measure_s=1.0))


@pytest.fixture(autouse=True)
def kills(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list for the system's counts of killed processes at each query. The last count is repeated."""
    counts = [0]
    monkeypatch.setattr(killed, "memory_kills", lambda: counts.pop(0) if len(counts) > 1 else counts[0])
    return counts


def attempts(*reports: EvaluateReport) -> Callable[[], EvaluateReport]:
    waiting = list(reports)
    return lambda: waiting.pop(0)


def crashed(outcome: Crashed) -> EvaluateReport:
    return EvaluateReport(outcome=outcome, stages=Stages(measure_s=2.0))


@pytest.mark.parametrize("outcome", [RUNNER, KERNEL])
def test_job_with_killed_processes_is_repeated_and_its_report_states_the_kill(outcome: Crashed) -> None:
    report = undisturbed(attempts(crashed(outcome), MEASURED))
    assert report.outcome == MEASURED.outcome
    assert report.environment["killed"].startswith("processes were killed in 1 earlier attempt: ")
    assert report.stages.measure_s == 3.0


def test_report_without_killed_processes_is_unchanged() -> None:
    assert undisturbed(attempts(MEASURED)) is MEASURED
    wrong = EvaluateReport(outcome=WrongAnswer(reason="off"))
    assert undisturbed(attempts(wrong)) is wrong


def test_job_with_a_crashed_kernel_is_not_repeated() -> None:
    assert undisturbed(attempts(crashed(OWN_FAULT))).outcome == OWN_FAULT


def test_kernel_killed_in_every_attempt_counts_as_crashed() -> None:
    report = undisturbed(attempts(*[crashed(KERNEL)] * MOST_ATTEMPTS))
    assert isinstance(report.outcome, Crashed)
    said = f"killed by SIGKILL; processes were killed in each of {MOST_ATTEMPTS} attempts: "
    assert report.outcome.reason.startswith(said)


def test_runner_killed_in_every_attempt_raises_killed_error() -> None:
    said = "killed in each of 3 attempts, the runner in the last one: the system reports no out-of-memory kill"
    with pytest.raises(KilledError, match=said):
        undisturbed(attempts(*[crashed(RUNNER)] * MOST_ATTEMPTS))


def test_error_about_killed_processes_states_that_memory_ran_out(kills: list[int]) -> None:
    kills[:] = [4, 5]
    with pytest.raises(KilledError, match="because memory ran out"):
        undisturbed(attempts(*[crashed(RUNNER)] * MOST_ATTEMPTS))


@pytest.mark.parametrize(
    ("report", "whole"),
    [
        (ConfirmReport(failure=KERNEL, failed="challenger"), ConfirmReport(challenger=FAIR)),
        (BaselineReport(timings={}, failure=RUNNER), BaselineReport(timings={"library": FAIR})),
        (AblateReport(failure=KERNEL), AblateReport(changes=(Ablated(failure=OWN_FAULT),))),
        (AblateReport(changes=(Ablated(same_binary=True), Ablated(failure=KERNEL))), AblateReport()),
    ],
)
def test_every_kind_of_job_with_killed_processes_is_repeated(report: Report, whole: Report) -> None:
    waiting = [report, whole]
    done = undisturbed(lambda: waiting.pop(0))  # type: ignore[type-var]
    assert not waiting
    assert replace(done, environment={}) == whole


def test_ablated_change_killed_in_every_attempt_counts_as_crashed() -> None:
    report = AblateReport(changes=(Ablated(same_binary=True), Ablated(failure=KERNEL)))
    _, change = undisturbed(lambda: report).changes
    assert isinstance(change.failure, Crashed)
    assert "in each of 3 attempts" in change.failure.reason


@pytest.mark.parametrize(
    ("cgroup", "file"),
    [
        ("0::/user.slice/session\n", "fs/user.slice/session/memory.events"),
        ("5:cpu,memory:/docker/a\n0::/\n", "fs/memory/docker/a/memory.oom_control"),
        ("nothing of the kind", "proc/vmstat"),
    ],
)
def test_out_of_memory_kills_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cgroup: str, file: str
) -> None:
    for path, text in (("proc/self/cgroup", cgroup), (file, "low 0\noom 9\noom_kill 7\n")):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.setattr(killed, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(killed, "_CGROUPS", tmp_path / "fs")
    assert memory_kills() == 7


def test_out_of_memory_kills_are_0_without_a_system_counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(killed, "_PROC", tmp_path)
    monkeypatch.setattr(killed, "_CGROUPS", tmp_path)
    assert memory_kills() == 0


@pytest.mark.parametrize(
    ("status", "sent"), [(-9, True), (-15, True), (-11, False), (-6, False), (0, False), (9, False)]
)
def test_only_termination_signals_count_as_kills_by_another_process(status: int, sent: bool) -> None:
    assert sent_from_outside(status) is sent
