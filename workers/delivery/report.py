"""Creates reports of jobs that cannot be done, and adds possible causes to outcomes."""

from evo.messages.job import Ablate, Baseline, Confirm, Evaluate, Job, Lease
from evo.trial.outcome import Crashed, LaunchFailed, Outcome, TimedOut
from evo.trial.results import AblateReport, BaselineReport, ConfirmReport, EvaluateReport, Report
from workers.jobs.evaluation import Preparation


def job_of(lease: Lease) -> str:
    """Return a key that is the same for all leases of one job."""
    return f"{lease.terms.key} {lease.job}"


def refused(job: Job, built: Preparation) -> bool:
    """Return True if the build refused the config of a job, so that no device is needed.

    An ablation needs a device unless the config of its champion was refused. Refused changes are reported together with
    measured changes.
    """
    needed = [built["champion"]] if isinstance(job, Ablate) and built else built.values()
    return any(each.refusal is not None for each in needed)


def _outcome(report: Report) -> Outcome | None:
    match report:
        case EvaluateReport(outcome=outcome):
            return outcome
        case ConfirmReport(failure=failure):
            return failure
        case AblateReport(failure=failure, changes=changes):
            ended = [failure, *(each.failure for each in changes)]
            return next((each for each in ended if isinstance(each, Crashed | TimedOut)), failure)
        case BaselineReport():
            return None


def doubtful(report: Report) -> bool:
    """Return True if the device may have caused the outcome."""
    return isinstance(_outcome(report), Crashed | TimedOut)


def died(report: Report) -> bool:
    """Return True if the outcome may result from a process that the worker killed."""
    if isinstance(report, BaselineReport):
        return not report.timings
    return isinstance(_outcome(report), Crashed)


def failure(of: Job | Report, reason: str) -> Report:
    """Return a report which states that a job failed permanently on this machine.

    Args:
        of: the failed job, or its report if the service rejected the report.
    """
    match of:
        case Evaluate() | EvaluateReport():
            return EvaluateReport(outcome=LaunchFailed(reason=reason))
        case Baseline() | BaselineReport():
            return BaselineReport(timings={}, unavailable={"all": reason})
        case Confirm() | ConfirmReport():
            return ConfirmReport(failure=LaunchFailed(reason=reason), failed="challenger")
        case Ablate() | AblateReport():
            return AblateReport(failure=LaunchFailed(reason=reason))


def summary(lease: Lease, report: EvaluateReport) -> dict[str, object]:
    """Return the log fields of a trial."""
    overhead_s = report.stages.overhead_s
    return {
        "number": lease.job.number if isinstance(lease.job, Evaluate) else None,
        "outcome": report.outcome.kind,
        "overhead_ms": None if overhead_s is None else round(overhead_s * 1e3, 1),
    }
