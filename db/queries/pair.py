"""Finds the confirmation that timed two trials in the same rounds."""

from dataclasses import dataclass

from sqlalchemy import and_, or_, select
from sqlalchemy.orm import Session, aliased

from db.models import ChampionRow, JobRow, SearchRow, TrialRow
from db.repositories.champions import same_kernel
from db.repositories.leases import Leases
from evo.promotion.statistics import Interval
from evo.trial.results import ConfirmReport
from evo.trial.timing import Timing


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Comparison of two trials in the same rounds of a confirmation.

    Attributes:
        speedup: the second trial's time divided by the first trial's time. In a search with a metric, costs are used
            instead of times.
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

    The result is also None if the problems, device models or objectives of the two trials' searches differ.

    Only confirmations of the two trials' searches are considered. A confirmation of other trials counts if their
    kernels are the same as those of the two trials (see `same_kernel`).
    """
    sides = [(each, session.get_one(SearchRow, each.search_id)) for each in (one, other)]
    if len({_terms(search) for _, search in sides}) > 1:
        return None
    challenger, incumbent = aliased(TrialRow), aliased(TrialRow)
    ahead, behind = (
        and_(
            same_kernel(challenger, SearchRow.family_digest, *first),
            same_kernel(incumbent, ChampionRow.family_digest, *second),
        )
        for first, second in (sides, sides[::-1])
    )
    query = (
        select(JobRow.id, JobRow.search_id, JobRow.verdict, challenger.number, ahead)
        .join(SearchRow, SearchRow.id == JobRow.search_id)
        .join(challenger, challenger.id == JobRow.trial_id)
        .join(ChampionRow, ChampionRow.id == JobRow.incumbent_id)
        .join(incumbent, incumbent.id == ChampionRow.trial_id)
        .where(JobRow.kind == "confirm", JobRow.search_id.in_({one.search_id, other.search_id}), or_(ahead, behind))
        .order_by(JobRow.search_id.desc(), JobRow.id.desc())
    )
    for job_id, search_id, verdict, number, is_ahead in session.execute(query):
        if verdict is not None and verdict.speedup is not None:
            return Pair(
                speedup=verdict.speedup if is_ahead else _inverse(verdict.speedup),
                search_id=search_id,
                challenger=number,
                processes=verdict.processes,
                job_id=job_id,
                ahead=bool(is_ahead),  # NULL if a binary is unknown
            )
    return None


def rounds_of(session: Session, pair: Pair) -> tuple[Timing | None, Timing | None]:
    """Return the samples of the first and of the second trial of `pair` in the first process of the confirmation.

    Both are None if the report of the confirmation is no longer stored.
    """
    report = Leases(session).report_of(pair.job_id)
    sides = (report.challenger, report.incumbent) if isinstance(report, ConfirmReport) else (None, None)
    return sides if pair.ahead else sides[::-1]


def _terms(search: SearchRow) -> tuple[str, str, str]:
    return search.problem_key, search.device.model, search.objective.key


def _inverse(ratio: Interval) -> Interval:
    return Interval(low=1.0 / ratio.high, estimate=1.0 / ratio.estimate, high=1.0 / ratio.low)
