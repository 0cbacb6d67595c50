"""Wakes requests that wait for work."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Wakeup:
    """Event that wakes waiters in the event loop. `notify` may be called from any thread."""

    def __init__(self) -> None:
        self.closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: set[asyncio.Event] = set()

    def attach(self) -> None:
        """Bind to the running event loop. Before that, `notify` does nothing."""
        self._loop = asyncio.get_running_loop()

    def notify(self) -> None:
        """Wake every waiter; from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.wake)

    def close(self) -> None:
        """End all waits, because the service is stopping. Call from the event loop only."""
        self.closed = True
        self.wake()

    @contextmanager
    def expected(self) -> Iterator[asyncio.Event]:
        """Yield an event set by every wake-up from now on, so none is missed between a check for work and the wait."""
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            yield event
        finally:
            self._waiting.discard(event)

    def wake(self) -> None:
        """Wake every waiter. From the event loop only."""
        for event in self._waiting:
            event.set()


async def set_within(event: asyncio.Event, timeout_s: float) -> None:
    """Return when the event is set, or when the time is up."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()
