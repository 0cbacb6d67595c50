"""REST routes that stream live events as server-sent events."""

import time
from collections.abc import AsyncIterator, Sequence
from typing import Annotated

import structlog
from fastapi import Depends, Header, Query
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from api.auth.caller import caller
from api.auth.permission import allow
from api.dependencies import Service, ServiceDep
from api.events.stream import ServerEvent, search_events
from api.http.routing import rest_router
from api.schemas import Id
from db.engine.events import EventPosition, Events
from db.engine.session import StoreUnavailable
from db.repositories.archive import Archive

log = structlog.get_logger("http")

router = rest_router(tag="events")

RETRY_MS = 1000
LONGEST_S = 900.0
"""Seconds after which a stream ends. The client reconnects, and its access is checked again."""


async def _place(
    service: ServiceDep,
    last_event_id: Annotated[str | None, Header(description="id of the last event received")] = None,
    after: Annotated[
        str | None, Query(description="id of the last event received, as a query parameter for the first connection")
    ] = None,
) -> EventPosition | None:
    """Return the position after which the client continues, or None if the client wants only future events."""
    if last_event_id:
        return EventPosition.parse(last_event_id, "last-event-id")
    return EventPosition.parse(after, "after") if after else None


PositionDep = Annotated[EventPosition | None, Depends(_place)]


async def _counted(service: ServiceDep) -> AsyncIterator[None]:
    """Count the stream as open until it ends. Raise a 429 error if its caller has too many open streams."""
    with service.listeners.one_more(caller().key):
        yield


Counted = Depends(_counted)


async def _existing_search(search_id: Id, service: ServiceDep) -> int:
    await run_in_threadpool(_look_up, service, search_id)
    return search_id


@router.get("/events", response_class=EventSourceResponse, dependencies=[Counted])
@allow("viewer")
async def stream_events(service: ServiceDep, position: PositionDep) -> AsyncIterator[ServerSentEvent]:
    """Send the states of the unfinished searches, then all new events (`trial`, `search`, `worker`, `deleted`)."""
    async for event in _stream(service, position, None):
        yield event


@router.get("/searches/{search_id}/events", response_class=EventSourceResponse, dependencies=[Counted])
@allow("viewer")
async def stream_search_events(
    search_id: Annotated[int, Depends(_existing_search)], service: ServiceDep, position: PositionDep
) -> AsyncIterator[ServerSentEvent]:
    """Send the current state of one search, then its new events (`trial`, `search`, `deleted`)."""
    async for event in _stream(service, position, search_id):
        yield event


async def _stream(
    service: Service, position: EventPosition | None, search_id: int | None
) -> AsyncIterator[ServerSentEvent]:
    """Yield events until the stream reaches its maximum duration or the database is unavailable.

    The client then reconnects and continues after the last event that it received.

    Args:
        position: position of the last event that the client received. None if the client wants only future events.
        search_id: search whose events are sent. None for the events of all searches and workers.
    """
    try:
        async for event in _events(service, position, search_id):
            yield event
    except StoreUnavailable as error:
        log.warning("an event stream ended; its client will reconnect", reason=str(error))


async def _events(
    service: Service, position: EventPosition | None, search_id: int | None
) -> AsyncIterator[ServerSentEvent]:
    start, lost, current = await run_in_threadpool(_begin, service, position, search_id)
    yield ServerSentEvent(comment="stream of events", id=str(start), retry=RETRY_MS)
    if lost:
        yield ServerSentEvent(event="reset", raw_data="{}", id=str(start))
    for event in current:
        yield _sent(event)
    deadline = time.monotonic() + LONGEST_S
    async for batch in service.feed.follow(start, search_id=search_id):
        for event in batch:
            yield _sent(event)
        if time.monotonic() > deadline:
            return


def _begin(
    service: Service, position: EventPosition | None, search_id: int | None
) -> tuple[EventPosition, bool, Sequence[ServerEvent]]:
    """Return the start position, whether the client missed events, and one event with the state of each search.

    The client missed events if events after its position were deleted from the log. The stream then starts at the end
    of the log. If `search_id` is None, the states of all unfinished searches are returned, else only that of the search
    `search_id`.
    """
    with service.database.read() as session:
        events = Events(session)
        lost = position is not None and not events.keeps(position)
        start = events.last() if position is None or lost else position
        ids = list(Archive(session).unfinished()) if search_id is None else [search_id]
        return start, lost, search_events(session, ids, service.conductor.clock(), start)


def _look_up(service: Service, search_id: int) -> None:
    with service.database.read() as session:
        Archive(session).search(search_id)


def _sent(event: ServerEvent) -> ServerSentEvent:
    return ServerSentEvent(event=event.name, raw_data=event.data, id=str(event.place))
