"""Event feed: reads the event log once for all event streams of this process."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from itertools import dropwhile

import structlog
from starlette.concurrency import run_in_threadpool

from api.events.stream import BATCH, ServerEvent, read_batch
from api.scheduler.active import Clock
from api.scheduler.leasing.wakeup import Wakeup, set_within
from db.engine.events import EventPosition, Events
from db.engine.session import Database, StoreUnavailable

log = structlog.get_logger("feed")

POLL_S = 0.25
"""Seconds between reads of the event log while a stream is open."""

LONGEST_WAIT_S = 60.0

KEPT_BATCHES = 64
"""Number of latest batches kept in memory. A stream that needs earlier events reads the log itself."""


class LogReplaced(Exception):
    """Raised if the log no longer contains all events after a position.

    This happens if a backup was restored or old events were deleted.
    """


class Feed:
    """Reads the event log for all event streams. A feed may be used from one event loop only.

    Each process of the service reads the whole log, so a client may connect to any process. The attribute `_recent`
    contains the events between the positions `_since` and `_head`.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._news = Wakeup()
        self._recent: deque[tuple[EventPosition, Sequence[ServerEvent]]] = deque()
        self._since: EventPosition | None = None
        self._head = EventPosition()
        self._listeners = 0
        self._reader: asyncio.Task[None] | None = None

    def close(self) -> None:
        """End every stream, because the service is stopping."""
        self._news.close()

    async def follow(
        self, after: EventPosition, *, search_id: int | None = None
    ) -> AsyncGenerator[Sequence[ServerEvent]]:
        """Yield batches of events after a position, until the feed is closed or the log is replaced.

        At least once a minute, a batch is yielded, so that the caller can check its time limit. Batches may be empty.

        Args:
            search_id: search whose events are yielded. If None, all events are yielded.
        """
        with self._listening():
            while not self._news.closed:
                with self._news.expected() as news:
                    head = self._head
                    batch = self._remembered(after)
                    if batch is None:
                        try:
                            batch = await run_in_threadpool(self._read, after, search_id)
                        except LogReplaced:  # the client then reconnects and reads the complete lists again
                            return
                    if batch:
                        after = batch[-1].place
                    else:
                        after = max(after, head)
                        await set_within(news, POLL_S if self._since is None else LONGEST_WAIT_S)
                yield [one for one in batch if search_id is None or one.search_id == search_id]

    @contextmanager
    def _listening(self) -> Iterator[None]:
        self._listeners += 1
        if self._reader is None:
            self._reader = asyncio.create_task(self._keep_reading())
        try:
            yield
        finally:
            self._listeners -= 1

    async def _keep_reading(self) -> None:
        """Read the event log while any stream is open."""
        try:
            self._head = self._since = await run_in_threadpool(self._last)
            while self._listeners and not self._news.closed:
                batch = await run_in_threadpool(self._read, self._head, None)
                if batch:
                    self._remember(batch)
                if len(batch) < BATCH:
                    await asyncio.sleep(POLL_S)
        except LogReplaced:
            log.warning("the event log was replaced, so all streams end and their clients reconnect")
        except StoreUnavailable as error:
            log.warning("the event log cannot be read at present", reason=str(error))
        except Exception:
            log.exception("the shared reader of the event log failed; each stream now reads the log itself")
        finally:
            self._reader = self._since = None
            self._head = EventPosition()
            self._recent.clear()
            self._news.wake()

    def _remember(self, batch: Sequence[ServerEvent]) -> None:
        self._recent.append((self._head, batch))
        self._head = batch[-1].place
        if len(self._recent) > KEPT_BATCHES:
            self._recent.popleft()
            self._since = self._recent[0][0]
        self._news.wake()

    def _remembered(self, after: EventPosition) -> list[ServerEvent] | None:
        """Return the events after a position from memory, or None if some of these events are no longer in memory."""
        if self._since is None or after < self._since:
            return None
        heard = dropwhile(lambda kept: kept[1][-1].place <= after, self._recent)
        return [one for _, batch in heard for one in batch if one.place > after]

    def _read(self, after: EventPosition, search_id: int | None) -> list[ServerEvent]:
        """Return the events after a position in the log. If `search_id` is not None, return only events of this search.

        Raises:
            LogReplaced: some events after the position are no longer in the log.
        """
        with self._database.read() as session:
            if not Events(session).keeps(after):
                raise LogReplaced
            return read_batch(session, after, self._clock(), search_id=search_id)

    def _last(self) -> EventPosition:
        with self._database.read() as session:
            return Events(session).last()
