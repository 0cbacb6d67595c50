"""Creates server-sent events from rows of the event log.

An event describes an ended trial, or the current state of a search or a worker.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from sqlalchemy.orm import Session
from starlette.exceptions import HTTPException

from api.views import source_of
from api.views.tally import search_summaries
from db.engine.events import EventPosition, Events, position_of
from db.models import EventRow, TrialRow, WorkerRow
from db.models.columns import adapter
from db.repositories.archive import Archive
from db.repositories.fleet import Fleet
from db.repositories.readable import readable_items
from evo.messages.event import SearchEvent, TrialEvent, WorkerEvent
from evo.trial.explain import detail_text, headline
from evo.trial.outcome import Measured

BATCH = 500
"""Maximum number of events per read."""


@dataclass(frozen=True, kw_only=True)
class ServerEvent:
    """One server-sent event in serialised form.

    Attributes:
        place: position in the event log. A client that has received this event continues after this position.
        name: ``trial``, ``search``, ``worker``, or ``deleted`` for a deleted search.
        search_id: id of the search to which the event belongs. None if the event belongs to a worker.
    """

    place: EventPosition
    name: str
    data: str
    search_id: int | None = None


def read_batch(
    session: Session, after: EventPosition, now: datetime, *, search_id: int | None = None, limit: int = BATCH
) -> list[ServerEvent]:
    """Return the events after a position, from at most `limit` rows of the log.

    Several rows about the same search or worker result in one event. Events of trials come first. If `search_id` is not
    None, only rows about this search are read.
    """
    rows = Events(session).after(after, search_id=search_id, limit=limit)
    if not rows:
        return []
    end = position_of(rows[-1])
    workers = dict.fromkeys(row.worker_id for row in rows if row.worker_id is not None)
    return [
        *_trials(session, rows),
        *search_events(session, list(dict.fromkeys(row.search_id for row in rows if row.search_id)), now, end),
        *readable_items(
            list(workers),
            lambda ids: [_worker(worker, end) for worker in Fleet(session).some(ids)],
            what="worker",
            name=str,
        )[0],
    ]


def search_events(
    session: Session, search_ids: Sequence[int], now: datetime, position: EventPosition
) -> list[ServerEvent]:
    """Return one event per search: its current state, or ``deleted``. Unreadable searches are left out."""
    read, unreadable = readable_items(
        search_ids, lambda ids: search_summaries(session, ids, now), what="search", name=int
    )
    events_now = {event.id: event for event in read}
    return [
        ServerEvent(place=position, name="search", data=_json(SearchEvent, events_now[search_id]), search_id=search_id)
        if search_id in events_now
        else ServerEvent(place=position, name="deleted", data=f'{{"id":{search_id}}}', search_id=search_id)
        for search_id in search_ids
        if search_id not in unreadable
    ]


def _trials(session: Session, rows: Sequence[EventRow]) -> list[ServerEvent]:
    ended = [row for row in rows if row.trial_id is not None]
    archive = Archive(session)
    changes, _ = readable_items(
        [cast(int, row.trial_id) for row in ended],
        lambda ids: [(trial_id, _trial(row)) for trial_id, row in archive.trials_of(ids).items()],
        what="trial",
        name=int,
    )
    trials = dict(changes)
    return [
        ServerEvent(place=position_of(row), name="trial", data=trials[row.trial_id], search_id=row.search_id)
        for row in ended
        if row.trial_id in trials
    ]


def _trial(row: TrialRow) -> str:
    outcome = row.outcome
    event = TrialEvent(
        id=row.id,
        search_id=row.search_id,
        number=row.number,
        place=row.finished_seq or 0,
        config=row.proposal.config,
        origin=row.proposal.origin,
        parents=row.proposal.parents,
        outcome=row.outcome_kind or "",
        reason="" if outcome is None else headline(detail_text(outcome)),
        time_us=row.time_us,
        iqr_us=outcome.timing.iqr_us if isinstance(outcome, Measured) else None,
        suspect=row.suspect,
        asked_at=row.asked_at,
        finished_at=row.finished_at,
        source=source_of(row),
    )
    return _json(TrialEvent, event)


def _worker(row: WorkerRow, position: EventPosition) -> ServerEvent:
    event = WorkerEvent(
        id=row.id,
        name=row.name,
        host=row.host,
        devices=tuple(device.model for device in row.devices),
        drain=row.drain,
        seen_at=row.seen_at,
    )
    return ServerEvent(place=position, name="worker", data=_json(WorkerEvent, event))


def _json(kind: type, event: object) -> str:
    return str(adapter(kind).dump_json(event), "utf-8")


MOST_STREAMS = 100
"""Maximum number of open streams per token, including the streams of its sessions."""

AGAIN_S = 60


class Listeners:
    """Counts the open streams of each caller. An object may be used from one event loop only."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    @contextmanager
    def one_more(self, key: str | None) -> Iterator[None]:
        """Count a stream while it is open.

        Args:
            key: key of the caller for rate limits. None for a caller on this machine without a token, whose streams are
                not limited.

        Raises:
            HTTPException: the caller has too many open streams (status 429).
        """
        if key is None:
            yield
            return
        if self._open[key] >= MOST_STREAMS:
            reason = f"{MOST_STREAMS} event streams are open with this token; close some, or poll instead"
            raise HTTPException(429, reason, {"Retry-After": str(AGAIN_S)})
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]
