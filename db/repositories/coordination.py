"""Coordination of service processes that share a search: its lock, its revision, and the trials added since.

Every claim and report runs these statements, so they are built once, on tables rather than ORM objects.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import BindParameter, Row, bindparam, func, or_, select, update
from sqlalchemy.orm import Session

from db.models import SearchRow, TrialRow, table
from evo.search.lifecycle import TERMINAL, State
from evo.search.search import Logged
from evo.trial import Trial

_SEARCHES, _TRIALS = table(SearchRow).c, table(TrialRow).c
_SEARCH: BindParameter[int] = bindparam("search")

_LOCK = (
    update(table(SearchRow))
    .where(_SEARCHES.id == _SEARCH)
    .values(revision=_SEARCHES.revision + 1)
    .returning(
        _SEARCHES.revision - 1,
        *(_SEARCHES[name] for name in ("milestone", "state", "started_at", "active_s", "active_since")),
    )
)
_MARK = update(table(SearchRow)).where(_SEARCHES.id == _SEARCH).values(milestone=_SEARCHES.revision)
_LOG = select(
    *(_TRIALS[name] for name in ("number", "proposal", "outcome", "told_before", "finished_seq", "binary_digest")),
).where(_TRIALS.search_id == _SEARCH)
_WHOLE_LOG = _LOG.order_by(_TRIALS.number)
_NEWS = _LOG.where(or_(_TRIALS.number >= bindparam("asked"), _TRIALS.finished_seq >= bindparam("ended")))
_RUNNING = (
    select(
        *(_SEARCHES[name] for name in ("id", "active_s", "active_since", "alive_at")),
        func.max(_TRIALS.asked_at).label("asked"),
        func.max(_TRIALS.finished_at).label("ended"),
    )
    .select_from(table(SearchRow).outerjoin(table(TrialRow), _TRIALS.search_id == _SEARCHES.id))
    .where(_SEARCHES.state.not_in(TERMINAL), _SEARCHES.active_since.is_not(None))
    .group_by(*(_SEARCHES[name] for name in ("id", "active_s", "active_since", "alive_at")))
)
_TICKING = (_SEARCHES.state.not_in(TERMINAL), _SEARCHES.active_since.is_not(None))


@dataclass(frozen=True)
class LockedSearch:
    """State of a search that a process reads when it locks the search.

    Attributes:
        revision: revision of the search before this transaction.
        milestone: last revision that changed more than proposed and finished trials: queued jobs, or baselines.
        active_s: running time before `active_since`, in seconds.
    """

    revision: int
    milestone: int
    state: State
    started_at: datetime | None
    active_s: float
    active_since: datetime | None

    def elapsed_s(self, now: datetime) -> float:
        """Return the running time of the search, in seconds."""
        running_s = 0.0 if self.active_since is None else (now - self.active_since).total_seconds()
        return self.active_s + max(0.0, running_s)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """Why and when a search ended, and its running time in seconds."""

    reason: str
    at: datetime
    active_s: float


class Coordination:
    """Queries over one session; the code that opened the session commits."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def lock(self, search_id: int) -> LockedSearch | None:
        """Lock a search until the transaction ends and increment its revision. Return None if the search has ended."""
        row = self.session.execute(_LOCK, {"search": search_id}).first()
        return None if row is None or row.state in TERMINAL else LockedSearch(*row)

    def end(self, search_id: int, state: State, *, ended: Ended | None = None) -> None:
        """Set the final state of a search without reading its documents, since an unreadable one may be the reason.

        Args:
            ended: None for a search that had already ended and whose ablation ends now.
        """
        values = {}
        if ended is not None:
            values = {"reason": ended.reason, "finished_at": ended.at, "active_s": ended.active_s, "active_since": None}
        row = update(table(SearchRow)).where(_SEARCHES.id == search_id)
        self.session.execute(row.values(state=state, **values))

    def restart_clocks(self, now: datetime) -> None:
        """Restart the clocks of unfinished searches at `now`; the time in which no service ran does not count.

        If a service was killed, its running time counts up to the search's last event or the last sweep, whichever is
        later. No documents are read, because an unreadable one must not keep the service from starting.
        """
        for row in self.session.execute(_RUNNING).all():
            known = (each for each in (row.asked, row.ended, row.alive_at) if each is not None)
            last = max(known, default=row.active_since)
            ran_s = max(0.0, (min(last, now) - row.active_since).total_seconds())
            clock = update(table(SearchRow)).where(_SEARCHES.id == row.id)
            self.session.execute(clock.values(active_s=row.active_s + ran_s, active_since=now))

    def note_alive(self, now: datetime) -> None:
        """Record that a service is running, for every search whose clock runs."""
        self.session.execute(update(table(SearchRow)).where(*_TICKING).values(alive_at=now))

    def alive_at(self) -> datetime | None:
        """Return when a service last recorded that it was running; None if no search's clock runs."""
        latest: datetime | None = self.session.scalar(select(func.max(_SEARCHES.alive_at)).where(*_TICKING))
        return latest

    def mark(self, search_id: int) -> None:
        """Record that this revision changed more than proposed and finished trials (see `LockedSearch.milestone`)."""
        self.session.execute(_MARK, {"search": search_id})

    def news(self, search_id: int, *, asked: int, ended: int) -> list[Logged]:
        """Return the trials proposed after the first `asked`, or ended after the first `ended`."""
        rows = self.session.execute(_NEWS, {"search": search_id, "asked": asked, "ended": ended})
        return [_logged(row) for row in rows]

    def log(self, search_id: int) -> list[Logged]:
        """Return every trial of a search in the order proposed, to rebuild the search in memory."""
        return [_logged(row) for row in self.session.execute(_WHOLE_LOG, {"search": search_id})]


def _logged(row: Row[int, Any, Any, int, int | None, str | None]) -> Logged:
    number, proposal, outcome, told_before, finished_seq, binary_digest = row
    trial = Trial(number=number, proposal=proposal, outcome=outcome, binary_digest=binary_digest)
    return Logged(trial=trial, seen=told_before, position=finished_seq)
