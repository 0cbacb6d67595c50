"""Measures the idle time of slots, and ends a worker that was idle for too long, e.g. on a rented machine."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


class IdleClock:
    """Counts the seconds in which a slot neither builds nor executes a job. Thread-safe.

    Args:
        clock: function that returns the time of a monotonic clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._working = 0
        self._still_s = 0.0
        self._since_s = clock()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count the time inside the ``with`` block as working time."""
        self._change(1)
        try:
            yield
        finally:
            self._change(-1)

    @property
    def still_s(self) -> float:
        """Return the idle seconds since the last `take`."""
        self._change(0)
        return self._still_s

    def take(self) -> float:
        """Return the idle seconds since the last call of this method, and reset them to 0."""
        with self._lock:
            self._settle()
            taken_s, self._still_s = self._still_s, 0.0
        return taken_s

    def excuse(self, seconds: float) -> None:
        """Subtract `seconds`, in which no jobs were available, from the idle time."""
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


@dataclass(kw_only=True)
class Ending:
    """Decides when a worker exits because it was idle or running for too long.

    Attributes:
        begun_s: time on the monotonic clock at which the worker started.
        idle_s: idle seconds after which the worker exits; None for no limit.
        drain_after_s: age of the worker in seconds at which it stops requesting jobs; None for no limit. The worker
            exits when its jobs are done.
    """

    begun_s: float
    idle_s: float | None = None
    drain_after_s: float | None = None
    _worked_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._worked_s = self.begun_s

    def closing(self, now_s: float) -> bool:
        """Return True if the worker must request no more jobs."""
        return self.drain_after_s is not None and now_s - self.begun_s >= self.drain_after_s

    def due(self, now_s: float, *, busy: bool) -> str | None:
        """Return the reason why the worker should end now, or None if it should continue.

        Args:
            busy: True if the worker has jobs or undelivered results now.
        """
        if busy:
            self._worked_s = now_s
            return None
        if self.closing(now_s):
            return "its running time has reached the limit"
        if self.idle_s is not None and now_s - self._worked_s >= self.idle_s:
            return f"there was no work for {self.idle_s:g} s"
        return None
