"""Creates reports of jobs that cannot be executed, and classifies the outcomes in reports."""

from evo.messages.job import Ablate, Baseline, Confirm, Evaluate, Job, Lease
from evo.trial.outcome import Crashed, LaunchFailed, Outcome, TimedOut
from evo.trial.results import AblateReport, BaselineReport, ConfirmReport, EvaluateReport, Report
from workers.jobs.evaluation import Preparation


def job_of(lease: Lease) -> str:
    """Return a key that identifies the job across all its leases."""
    return f"{lease.terms.key} {lease.job}"


def refused(job: Job, built: Preparation) -> bool:
    """Return True if a build failed, so that the job needs no measurement and no device.

    In an ablation, only the build of the champion counts.
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
    """Return True if a faulty device may have caused the outcome."""
    return isinstance(_outcome(report), Crashed | TimedOut)


def died(report: Report) -> bool:
    """Return True if an interruption of the job, which kills its processes, may have caused the outcome."""
    if isinstance(report, BaselineReport):
        return not report.timings
    return isinstance(_outcome(report), Crashed)


def failure(of: Job | Report, reason: str) -> Report:
    """Return a report that states that a job failed.

    Args:
        of: the failed job, or the report of the job if the service rejected this report.
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
    """Return the fields of a trial for the log."""
    overhead_s = report.stages.overhead_s
    return {
        "number": lease.job.number if isinstance(lease.job, Evaluate) else None,
        "outcome": report.outcome.kind,
        "overhead_ms": None if overhead_s is None else round(overhead_s * 1e3, 1),
    }
