"""What a report says: whom it may blame, and what stands for a job that could not be done."""

from evo.messages.job import Ablate, Baseline, Confirm, Evaluate, Job, Lease
from evo.results import AblateReport, BaselineReport, ConfirmReport, EvaluateReport, Report
from evo.trial.outcome import Crashed, LaunchFailed, Outcome, TimedOut
from workers.jobs.evaluation import Preparation


def job_of(lease: Lease) -> str:
    """The same for every lease of one job."""
    return f"{lease.terms.search_id} {lease.job}"


def refused(job: Job, built: Preparation) -> bool:
    """A config that was refused before it met the device needs none; one of several changes keeps no other from it."""
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
    """Whether the device may be the reason for how this ended."""
    return isinstance(_outcome(report), Crashed | TimedOut)


def died(report: Report) -> bool:
    """Whether the report may tell of our own kill rather than of the candidate."""
    if isinstance(report, BaselineReport):
        return not report.timings
    return isinstance(_outcome(report), Crashed)


def failure(job: Job, reason: str) -> Report:
    """The result of a job that cannot be done here, however often it is tried."""
    match job:
        case Evaluate():
            return EvaluateReport(outcome=LaunchFailed(reason=reason))
        case Baseline():
            return BaselineReport(timings={}, unavailable={"all": reason})
        case Confirm():
            return ConfirmReport(failure=LaunchFailed(reason=reason), failed="challenger")
        case Ablate():
            return AblateReport(failure=LaunchFailed(reason=reason))


def summary(lease: Lease, report: EvaluateReport) -> dict[str, object]:
    """What is logged of a trial."""
    overhead_s = report.stages.overhead_s
    return {
        "number": lease.job.number if isinstance(lease.job, Evaluate) else None,
        "outcome": report.outcome.kind,
        "overhead_ms": None if overhead_s is None else round(overhead_s * 1e3, 1),
    }
