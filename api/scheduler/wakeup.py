"""Wakes the requests that wait for work."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Wakeup:
    """One side waits in the event loop, the other may call from any thread."""

    def __init__(self) -> None:
        self.closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: set[asyncio.Event] = set()

    def attach(self) -> None:
        """Belong to the running event loop; before that, `notify` does nothing."""
        self._loop = asyncio.get_running_loop()

    def notify(self) -> None:
        """Wake every waiter; from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.wake)

    def close(self) -> None:
        """Let no one wait any longer: the service is about to end. From the event loop only."""
        self.closed = True
        self.wake()

    @contextmanager
    def expected(self) -> Iterator[asyncio.Event]:
        """An event that whatever happens from here on sets: nothing between looking for work and waiting is missed."""
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
