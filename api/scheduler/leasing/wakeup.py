"""Wakes requests that wait for work."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Wakeup:
    """Wakes tasks that wait in the event loop. `notify` may be called from any thread."""

    def __init__(self) -> None:
        self.closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: set[asyncio.Event] = set()

    def attach(self) -> None:
        """Bind the object to the running event loop. Before this call, `notify` has no effect."""
        self._loop = asyncio.get_running_loop()

    def notify(self) -> None:
        """Wake all waiting tasks. May be called from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.wake)

    def close(self) -> None:
        """End all waits. Called when the service stops. May be called from the event loop only."""
        self.closed = True
        self.wake()

    @contextmanager
    def expected(self) -> Iterator[asyncio.Event]:
        """Context manager with an event that every later wake-up sets.

        Check for work inside the ``with`` block, then wait for the event. A wake-up between the check and the wait is
        not missed.
        """
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            yield event
        finally:
            self._waiting.discard(event)

    def wake(self) -> None:
        """Wake all waiting tasks. May be called from the event loop only."""
        for event in self._waiting:
            event.set()


async def set_within(event: asyncio.Event, timeout_s: float) -> None:
    """Wait until the event is set, at most `timeout_s` seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()
