"""Computes the progress of a search, for its page and for live lists of searches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from db.models import SearchRow, TrialRow
from db.repositories.archive import Archive
from db.repositories.champions import Champions
from evo.messages.event import SearchEvent
from evo.messages.view import BestView
from evo.promotion.leading import fastest_of, leading_speedup, leading_time
from evo.trial import quick_cost
from evo.trial.outcome import Estimated
from evo.trial.timing import Timing


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Progress of a search.

    Attributes:
        counts: number of trials by outcome. The key None contains the number of pending trials.
        best: the best trial. None if no trial has a time.
        fastest_baseline: name of the baseline with the shortest time. None if no baseline was timed.
        speedup: speed-up of the best trial over the fastest baseline. If the trial is confirmed, this is the confirmed
            speed-up. None without `best` or baselines.
        unconfirmed: unconfirmed trial whose quick cost is below the quick cost of the confirmed best trial. None if
            there is no such trial.
    """

    counts: dict[str | None, int]
    best: BestView | None
    fastest_baseline: str | None
    speedup: float | None
    unconfirmed: BestView | None = None

    @classmethod
    def of(cls, session: Session, row: SearchRow, counts: dict[str | None, int]) -> "Tally":
        baselines = row.timed_baselines
        archive = Archive(session)
        found = archive.best(row.id)
        best = _best_view(found, baselines)
        unconfirmed = None if found is None else _best_view(archive.faster_unconfirmed(found), baselines)
        speedup = None if best is None or best.speedup is None else best.speedup.value
        fastest = fastest_of(baselines)
        return cls(counts=counts, best=best, fastest_baseline=fastest, speedup=speedup, unconfirmed=unconfirmed)

    @property
    def asked(self) -> int:
        return sum(self.counts.values())

    @property
    def finished(self) -> int:
        return sum(self.by_kind.values())

    @property
    def by_kind(self) -> dict[str, int]:
        """Number of ended trials by outcome, the most frequent outcome first."""
        ended = [(kind, count) for kind, count in self.counts.items() if kind is not None]
        return dict(sorted(ended, key=lambda counted: (-counted[1], counted[0])))


def elapsed_s(row: SearchRow, now: datetime) -> float:
    """Return the running time of a search in seconds, without pauses."""
    return row.active_s + (0.0 if row.active_since is None else max(0.0, (now - row.active_since).total_seconds()))


def _best_view(row: TrialRow | None, baselines: Mapping[str, Timing]) -> BestView | None:
    if row is None:
        return None
    estimated = isinstance(row.outcome, Estimated)
    time = leading_time(row.time_us, row.confirmed, estimated=estimated)
    if time is None:
        return None
    return BestView(
        number=row.number,
        config=row.proposal.config,
        time_us=time.value,
        cost=row.cost,
        estimated=estimated,
        source=time.source,
        interval=time.interval,
        quick_us=row.quick_us,
        quick_cost=quick_cost(row.outcome),
        speedup=leading_speedup(row.time_us, row.confirmed, baselines, estimated=estimated),
    )


def search_summaries(session: Session, search_ids: Sequence[int], now: datetime) -> tuple[SearchEvent, ...]:
    """Return the current summaries of searches. Deleted searches are left out."""
    counts = Archive(session).counts(search_ids)
    return tuple(_summary(session, row, counts[row.id], now) for row in Archive(session).searches_of(search_ids))


def _summary(session: Session, row: SearchRow, counts: dict[str | None, int], now: datetime) -> SearchEvent:
    tally, champion = Tally.of(session, row, counts), Champions(session).incumbent(row)
    return SearchEvent(
        id=row.id,
        state=row.state,
        reason=row.reason,
        family=row.family.name,
        problem_key=row.problem_key,
        device_model=row.device.model,
        asked=tally.asked,
        finished=tally.finished,
        counts=tally.by_kind,
        best=tally.best,
        speedup=tally.speedup,
        champion_id=None if champion is None else champion.id,
        champion_us=None if champion is None else champion.time_us,
        elapsed_s=elapsed_s(row, now),
        started_at=row.started_at,
        finished_at=row.finished_at,
    )
