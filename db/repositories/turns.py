"""What processes that take turns at a search tell each other: its revision, and the trials asked and ended since.

Every claim and every report runs these statements, so they are built once, on tables rather than on objects.
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
class Standing:
    """What a process must know of a search before it goes on with it.

    Attributes:
        revision: that of the search as others left it.
        milestone: the last revision that brought more than trials asked and told: jobs queued, or baselines.
    """

    revision: int
    milestone: int
    state: State
    started_at: datetime | None
    active_s: float
    active_since: datetime | None

    def elapsed_s(self, now: datetime) -> float:
        """Seconds that the search has been running."""
        running_s = 0.0 if self.active_since is None else (now - self.active_since).total_seconds()
        return self.active_s + max(0.0, running_s)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """Why and when a search ended, and the seconds that it ran."""

    reason: str
    at: datetime
    active_s: float


class Turns:
    """Queries over one session; whoever opened the session commits."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def lock(self, search_id: int) -> Standing | None:
        """Keep other processes from a search until the transaction ends, which is its next revision; None if the search
        has ended already."""
        row = self.session.execute(_LOCK, {"search": search_id}).first()
        return None if row is None or row.state in TERMINAL else Standing(*row)

    def end(self, search_id: int, state: State, *, ended: Ended | None = None) -> None:
        """Give a search its last state, without reading its documents: one of them may be why it ends.

        Args:
            ended: None for a search that had ended before, and whose ablation ends now.
        """
        said = {}
        if ended is not None:
            said = {"reason": ended.reason, "finished_at": ended.at, "active_s": ended.active_s, "active_since": None}
        row = update(table(SearchRow)).where(_SEARCHES.id == search_id)
        self.session.execute(row.values(state=state, **said))

    def restart_clocks(self, now: datetime) -> None:
        """Let the clocks of unfinished searches run on from now; the time in which no service ran does not count.

        What ran before a kill counts up to the last event of the search or the last sweep, whichever came later.

        It reads no documents: one that cannot be read must not keep the service from starting.
        """
        for row in self.session.execute(_RUNNING).all():
            known = (each for each in (row.asked, row.ended, row.alive_at) if each is not None)
            last = max(known, default=row.active_since)
            ran_s = max(0.0, (min(last, now) - row.active_since).total_seconds())
            clock = update(table(SearchRow)).where(_SEARCHES.id == row.id)
            self.session.execute(clock.values(active_s=row.active_s + ran_s, active_since=now))

    def note_alive(self, now: datetime) -> None:
        """Record that a service looks after every search whose clock runs."""
        self.session.execute(update(table(SearchRow)).where(*_TICKING).values(alive_at=now))

    def alive_at(self) -> datetime | None:
        """When a service last did so; None where no clock runs."""
        latest: datetime | None = self.session.scalar(select(func.max(_SEARCHES.alive_at)).where(*_TICKING))
        return latest

    def mark(self, search_id: int) -> None:
        """Make this revision of a search a milestone."""
        self.session.execute(_MARK, {"search": search_id})

    def news(self, search_id: int, *, asked: int, ended: int) -> list[Logged]:
        """Trials asked since the first `asked` or ended since the first `ended`."""
        rows = self.session.execute(_NEWS, {"search": search_id, "asked": asked, "ended": ended})
        return [_logged(row) for row in rows]

    def log(self, search_id: int) -> list[Logged]:
        """Every trial of a search in the order asked, from which a search is rebuilt."""
        return [_logged(row) for row in self.session.execute(_WHOLE_LOG, {"search": search_id})]


def _logged(row: Row[int, Any, Any, int, int | None, str | None]) -> Logged:
    number, proposal, outcome, told_before, finished_seq, binary_digest = row
    trial = Trial(number=number, proposal=proposal, outcome=outcome, binary_digest=binary_digest)
    return Logged(trial=trial, seen=told_before, position=finished_seq)
