"""What a search and its one-line summary both say of how far it has come."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from db.archive import Archive
from db.models import SearchRow, TrialRow
from evo.outcome import Estimated
from evo.view import BestView


@dataclass(frozen=True, kw_only=True)
class Tally:
    """How far a search has come.

    Attributes:
        counts: trials by outcome; under None those that have not ended.
        speedup: of the best trial over the fastest baseline.
    """

    counts: dict[str | None, int]
    best: BestView | None
    fastest_baseline: str | None
    speedup: float | None

    @classmethod
    def of(cls, session: Session, row: SearchRow, counts: dict[str | None, int]) -> "Tally":
        baselines = row.timed_baselines
        fastest = min(baselines, key=lambda name: baselines[name].median_us, default=None)
        trial = Archive(session).best(row.id)
        best = None if trial is None or trial.time_us is None else _best_view(trial, trial.time_us)
        speedup = None if fastest is None or best is None else baselines[fastest].median_us / best.time_us
        return cls(counts=counts, best=best, fastest_baseline=fastest, speedup=speedup)

    @property
    def asked(self) -> int:
        return sum(self.counts.values())

    @property
    def finished(self) -> int:
        return sum(self.by_kind.values())

    @property
    def by_kind(self) -> dict[str, int]:
        """Ended trials by outcome, the commonest first."""
        ended = [(kind, count) for kind, count in self.counts.items() if kind is not None]
        return dict(sorted(ended, key=lambda counted: (-counted[1], counted[0])))


def elapsed_s(row: SearchRow, now: datetime) -> float:
    """Seconds a search has been running, pauses left out."""
    return row.active_s + (0.0 if row.active_since is None else max(0.0, (now - row.active_since).total_seconds()))


def _best_view(row: TrialRow, time_us: float) -> BestView:
    estimated = isinstance(row.outcome, Estimated)
    return BestView(number=row.number, config=row.proposal.config, time_us=time_us, estimated=estimated)
