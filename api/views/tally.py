"""What a search and its one-line summary both say of how far it has come."""

from datetime import datetime

from db.models import SearchRow, TrialRow
from evo.outcome import Estimated
from evo.view import BestView


def by_kind(counts: dict[str | None, int]) -> dict[str, int]:
    """Ended trials by outcome, the commonest first."""
    return {kind: count for kind, count in sorted(counts.items(), key=_common) if kind is not None}


def _common(counted: tuple[str | None, int]) -> tuple[int, str]:
    kind, count = counted
    return -count, kind or ""


def elapsed_s(row: SearchRow, now: datetime) -> float:
    """Seconds a search has been running, pauses left out."""
    return row.active_s + (0.0 if row.active_since is None else (now - row.active_since).total_seconds())


def best_view(row: TrialRow, time_us: float) -> BestView:
    estimated = isinstance(row.outcome, Estimated)
    return BestView(number=row.number, config=row.proposal.config, time_us=time_us, estimated=estimated)
