"""How long a device stands still: what nobody builds or performs anything in, though there is work to be had."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Meter:
    """Counts the seconds in which no thread of a slot is `working`. Thread-safe.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._working = 0
        self._still_s = 0.0
        self._since_s = clock()

    @contextmanager
    def working(self) -> Iterator[None]:
        """A job is being built or performed meanwhile."""
        self._change(1)
        try:
            yield
        finally:
            self._change(-1)

    @property
    def still_s(self) -> float:
        """Seconds that nobody worked since that was last taken."""
        self._change(0)
        return self._still_s

    def take(self) -> float:
        """The same, and count from 0 again."""
        with self._lock:
            self._settle()
            taken_s, self._still_s = self._still_s, 0.0
        return taken_s

    def excuse(self, seconds: float) -> None:
        """Forget so many of them: there was no work to be had."""
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
