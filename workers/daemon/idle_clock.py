"""Seconds in which a slot was idle while work was available."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class IdleClock:
    """Counts the seconds in which no thread of a slot is `working`. Thread-safe.

    Args:
        clock: monotonic clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._working = 0
        self._still_s = 0.0
        self._since_s = clock()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Mark the block as time in which a job is built or performed."""
        self._change(1)
        try:
            yield
        finally:
            self._change(-1)

    @property
    def still_s(self) -> float:
        """Return idle seconds since the last `take`."""
        self._change(0)
        return self._still_s

    def take(self) -> float:
        """Return idle seconds and restart from 0."""
        with self._lock:
            self._settle()
            taken_s, self._still_s = self._still_s, 0.0
        return taken_s

    def excuse(self, seconds: float) -> None:
        """Subtract seconds in which no work was available."""
        with self._lock:
            self._settle()
            self._still_s = max(0.0, self._still_s - seconds)

    def _change(self, by: int) -> None:
        with self._lock:
            self._settle()
            self._working += by

    def _settle(self) -> None:
        now_s = self._clock()
        if not self._working:
            self._still_s += now_s - self._since_s
        self._since_s = now_s
