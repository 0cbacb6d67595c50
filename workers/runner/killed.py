"""Repeats jobs whose processes were killed from outside, which is not the candidate's fault.

An operator, a batch system or the system's out-of-memory killer may kill any process of a worker. A kernel can kill its
own process with the same signals, so a job is repeated only a few times.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import structlog

from evo.errors import EvoError
from evo.trial.outcome import Crashed, Outcome
from evo.trial.results import AblateReport, BaselineReport, ConfirmReport, EvaluateReport, Report

MOST_ATTEMPTS = 3
"""Maximum number of attempts at one job, each in fresh processes."""

R = TypeVar("R", EvaluateReport, BaselineReport, ConfirmReport, AblateReport)

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")
_LOG = structlog.get_logger()


class KilledError(EvoError, RuntimeError):
    """Raised if a process was killed in every attempt, and this process was the runner in the last attempt.

    The candidate then has no outcome, and the job is given back to the service.
    """


def undisturbed(perform: Callable[[], R]) -> R:
    """Execute a job, and repeat it if its processes are killed from outside.

    Returns:
        The report of the first attempt in which no process was killed. If a process was killed in each of
        `MOST_ATTEMPTS` attempts, and this process was the kernel process in the last attempt, the kernel probably
        killed it. The last report is then returned, and its outcome mentions the kills.

    Raises:
        KilledError: a process was killed in every attempt, and in the last attempt this process was the runner.
    """
    before = memory_kills()
    earlier: list[R] = []
    report = perform()
    while (killed := _killed(report)) is not None and len(earlier) + 1 < MOST_ATTEMPTS:
        event = "a process of a job was killed; the job is repeated"
        _LOG.warning(event, attempt=len(earlier) + 1, process=killed.killed, reason=killed.reason)
        earlier.append(report)
        report = perform()
    if not earlier:
        return report
    cause = _cause(memory_kills() - before)
    if killed is not None and killed.killed == "runner":
        attempts = f"processes were killed in each of {MOST_ATTEMPTS} attempts, the runner in the last one"
        raise KilledError(f"{attempts}: {cause} (last: {killed.reason})")
    if killed is not None:
        report = _with_reason(report, f"; processes were killed in each of {MOST_ATTEMPTS} attempts: {cause}")
    note = f"processes were killed in {len(earlier)} earlier attempt{'s' * (len(earlier) > 1)}: {cause}"
    spent = [report.stages, *(each.stages for each in earlier)]
    stages = replace(
        report.stages,
        verify_s=sum(each.verify_s for each in spent),
        measure_s=sum(each.measure_s for each in spent),
    )
    return replace(report, stages=stages, environment={**report.environment, "killed": note})


def memory_kills() -> int:
    """Return the number of out-of-memory kills so far, in this container or, if unknown, on the machine.

    The result is 0 if both numbers are unknown.
    """
    return next(_counts(), 0)


def _counts() -> Iterator[int]:
    for path in _counters():
        try:
            words = path.read_text().split()
            yield int(words[words.index("oom_kill") + 1])
        except (OSError, ValueError, IndexError):
            continue


def _counters() -> Iterator[Path]:
    """Yield the files that may contain the number of out-of-memory kills: cgroup v2, cgroup v1, the machine."""
    try:
        lines = (_PROC / "self" / "cgroup").read_text().splitlines()
    except OSError:
        lines = []
    for number, controllers, folder in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        path = folder.lstrip("/")
        if number == "0" and not controllers:
            yield _CGROUPS / path / "memory.events"
        elif "memory" in controllers.split(","):
            yield _CGROUPS / "memory" / path / "memory.oom_control"
    yield _PROC / "vmstat"


def _cause(kills: int) -> str:
    if kills > 0:
        return "the system killed processes because memory ran out; free memory, or run fewer jobs on this machine"
    return "the system reports no out-of-memory kill, so another process sent the signal"


def _killed(report: Report) -> Crashed | None:
    return next((each for each in _outcomes(report) if isinstance(each, Crashed) and each.killed is not None), None)


def _outcomes(report: Report) -> Iterator[Outcome | None]:
    match report:
        case EvaluateReport(outcome=outcome):
            yield outcome
        case ConfirmReport(failure=failure) | BaselineReport(failure=failure):
            yield failure
        case AblateReport(failure=failure, changes=changes):
            yield failure
            yield from (each.failure for each in changes)


def _with_reason(report: R, more: str) -> R:
    """Return the report with `more` appended to the reason of each outcome of a killed process."""

    def explained(outcome: Outcome | None) -> Outcome | None:
        if isinstance(outcome, Crashed) and outcome.killed is not None:
            return replace(outcome, reason=outcome.reason + more)
        return outcome

    match report:
        case EvaluateReport(outcome=outcome):
            return replace(report, outcome=explained(outcome) or outcome)
        case AblateReport(failure=failure, changes=changes):
            changed = tuple(replace(each, failure=explained(each.failure)) for each in changes)
            return replace(report, failure=explained(failure), changes=changed)
    return replace(report, failure=explained(report.failure))
