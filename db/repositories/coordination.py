"""Locks searches, and reads the changes that other processes made to them.

Every claim and report executes SQL statements of this module. For speed, the statements are built only once, and use
columns instead of ORM objects.
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
    """State of a search at the moment when a process locked it.

    Attributes:
        revision: revision of the search before this transaction.
        milestone: last revision with a change other than proposed and ended trials, for example queued jobs or
            baselines.
        started_at: time of the first lease of a job; None before that.
        active_s: running time in seconds, without the time since `active_since`.
        active_since: time at which the clock of the running time was last started; None while the clock is stopped.
    """

    revision: int
    milestone: int
    state: State
    started_at: datetime | None
    active_s: float
    active_since: datetime | None

    def elapsed_s(self, now: datetime) -> float:
        """Return the running time of the search up to `now`, in seconds."""
        running_s = 0.0 if self.active_since is None else (now - self.active_since).total_seconds()
        return self.active_s + max(0.0, running_s)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """Reason and time of the end of a search, and its running time in seconds."""

    reason: str
    at: datetime
    active_s: float


class Coordination:
    """Locks searches and reads the changes of other processes, within one session. The caller commits the session."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def lock(self, search_id: int) -> LockedSearch | None:
        """Lock a search until the transaction ends, increment its revision, and return its state.

        The result is None if the search has ended or does not exist.
        """
        row = self.session.execute(_LOCK, {"search": search_id}).first()
        return None if row is None or row.state in TERMINAL else LockedSearch(*row)

    def end(self, search_id: int, state: State, *, ended: Ended | None = None) -> None:
        """Set the final state of a search.

        Columns that contain JSON are not read, because an unreadable document may be why the search ends.

        Args:
            ended: reason and time of the end. None if the search had ended before, and only its ablation ends now.
        """
        values = {}
        if ended is not None:
            values = {"reason": ended.reason, "finished_at": ended.at, "active_s": ended.active_s, "active_since": None}
        row = update(table(SearchRow)).where(_SEARCHES.id == search_id)
        self.session.execute(row.values(state=state, **values))

    def restart_clocks(self, now: datetime) -> None:
        """Let the running time of all unfinished searches whose clock is running continue from `now`.

        Time without a running service does not count. If a service was killed, the running time counts up to the last
        event of the search or the last periodic task, whichever is later. Columns that contain JSON are not read,
        because an unreadable document must not prevent the start of the service.
        """
        for row in self.session.execute(_RUNNING).all():
            known = (each for each in (row.asked, row.ended, row.alive_at) if each is not None)
            last = max(known, default=row.active_since)
            ran_s = max(0.0, (min(last, now) - row.active_since).total_seconds())
            clock = update(table(SearchRow)).where(_SEARCHES.id == row.id)
            self.session.execute(clock.values(active_s=row.active_s + ran_s, active_since=now))

    def note_alive(self, now: datetime) -> None:
        """Record the current time in every search whose clock is running, as proof that a service is running."""
        self.session.execute(update(table(SearchRow)).where(*_TICKING).values(alive_at=now))

    def reset_obstacles_ahead(self, now: datetime) -> None:
        """Set the time of every obstacle that is later than `now` to `now`.

        An obstacle is the reason why the jobs of a search wait. It ends when a later job is executed. If its time is in
        the future, because a clock was ahead, no job would end it.
        """
        ahead = update(table(SearchRow)).where(_SEARCHES.obstacle_at > now)
        self.session.execute(ahead.values(obstacle_at=now))

    def alive_at(self) -> datetime | None:
        """Return the last time at which a service recorded that it was running.

        None if the clock of no search is running.
        """
        latest: datetime | None = self.session.scalar(select(func.max(_SEARCHES.alive_at)).where(*_TICKING))
        return latest

    def mark(self, search_id: int) -> None:
        """Set the milestone of a search to its current revision (see `LockedSearch.milestone`)."""
        self.session.execute(_MARK, {"search": search_id})

    def news(self, search_id: int, *, asked: int, ended: int) -> list[Logged]:
        """Return the trials that were proposed or have ended since a process last read the search.

        Args:
            asked: lowest trial number that is new to the process.
            ended: lowest position among the ended trials that is new to the process.
        """
        rows = self.session.execute(_NEWS, {"search": search_id, "asked": asked, "ended": ended})
        return [_logged(row) for row in rows]

    def log(self, search_id: int) -> list[Logged]:
        """Return all trials of a search, sorted by number, from which the search is rebuilt in memory."""
        return [_logged(row) for row in self.session.execute(_WHOLE_LOG, {"search": search_id})]


def _logged(row: Row[int, Any, Any, int, int | None, str | None]) -> Logged:
    number, proposal, outcome, told_before, finished_seq, binary_digest = row
    trial = Trial(number=number, proposal=proposal, outcome=outcome, binary_digest=binary_digest)
    return Logged(trial=trial, seen=told_before, position=finished_seq)
