"""Finds the confirmation that timed two trials in the same rounds."""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from db.models import SearchRow, TrialRow
from db.repositories.archive import Archive
from db.repositories.champions import Champions
from db.repositories.leases import Leases
from evo.promotion.statistics import Interval
from evo.trial.results import ConfirmReport
from evo.trial.timing import Timing


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Comparison of two trials in the same rounds of a confirmation.

    Attributes:
        speedup: the second trial's time divided by the first trial's time. In a search with a metric, costs take the
            place of times.
        search_id: search of the confirmation.
        challenger: number, in this search, of the trial that challenged the other trial.
        processes: number of fresh processes from which `speedup` is computed.
        job_id: job of the confirmation.
        ahead: True if the first trial is the challenger; False if it is the incumbent.
    """

    speedup: Interval
    search_id: int
    challenger: int
    processes: int
    job_id: int
    ahead: bool


def pair_of(session: Session, one: TrialRow, other: TrialRow) -> Pair | None:
    """Return the last confirmation in which one trial was the challenger and the other the incumbent, or None.

    Trials of the same problem with the same binary, or with the same config of the same family, count as equal.
    """
    archive, champions, found = Archive(session), Champions(session), None
    for search_id in sorted({one.search_id, other.search_id}):
        for job in Leases(session).confirmations(search_id):
            verdict = job.verdict
            if job.trial is None or job.incumbent_id is None or verdict is None or verdict.speedup is None:
                continue
            incumbent = archive.trial(champions.champion(job.incumbent_id).trial_id)
            ahead = _same(session, job.trial, one) and _same(session, incumbent, other)
            if not ahead and not (_same(session, job.trial, other) and _same(session, incumbent, one)):
                continue
            found = Pair(
                speedup=verdict.speedup if ahead else _inverse(verdict.speedup),
                search_id=search_id,
                challenger=job.trial.number,
                processes=verdict.processes,
                job_id=job.id,
                ahead=ahead,
            )
    return found


def rounds_of(session: Session, pair: Pair) -> tuple[Timing | None, Timing | None]:
    """Return the samples of both trials in the first process; None for both if the report is no longer stored."""
    report = Leases(session).report_of(pair.job_id)
    sides = (report.challenger, report.incumbent) if isinstance(report, ConfirmReport) else (None, None)
    return sides if pair.ahead else sides[::-1]


def _same(session: Session, one: TrialRow, other: TrialRow) -> bool:
    if one.id == other.id:
        return True
    mine, theirs = (session.get_one(SearchRow, each.search_id) for each in (one, other))
    binary = one.binary_digest is not None and one.binary_digest == other.binary_digest
    config = mine.family_digest == theirs.family_digest and one.proposal.config == other.proposal.config
    return mine.problem_key == theirs.problem_key and (binary or config)


def _inverse(ratio: Interval) -> Interval:
    return Interval(low=1.0 / ratio.high, estimate=1.0 / ratio.estimate, high=1.0 / ratio.low)
