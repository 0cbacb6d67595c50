"""Time that clocks show and in which this process did not run: it was stopped, its machine slept, or a clock was set.

Leases and budgets are kept as moments of the wall clock, since several processes and restarts share them. Such moments
mean durations only as long as the clock and the process both go on; what they lose against each other is counted here.
"""

import threading
import time
from collections.abc import Callable

import structlog

TICK_S = 0.5
LONGEST_TICK_S = 3.0
"""A tick that takes longer means that the process was stopped; a busy one is late by less."""

LEAST_S = 1.0
"""Smaller differences are the clock's being corrected slowly, or ticks that came late."""

log = structlog.get_logger("service")


class Interruptions:
    """Safe to share between threads.

    Args:
        wall: seconds of the wall clock.
        steady: seconds of a clock that nobody sets; it may stand while the machine sleeps.
    """

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady = wall, steady
        self._last = (wall(), steady())
        self._lost_s = 0.0
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clock", daemon=True)

    def start(self) -> None:
        """Look at the clocks regularly from now on; else time in which nobody asks would count as lost."""
        self._last = (self._wall(), self._steady())
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._ending.set()

    def lost_s(self) -> float:
        """Seconds by which the wall clock went further than this process ran, so far; negative if it was set back."""
        with self._lock:
            now = (self._wall(), self._steady())
            passed_s, steady_s = (new - old for new, old in zip(now, self._last, strict=True))
            ran_s = steady_s if steady_s <= LONGEST_TICK_S else TICK_S
            lost_s = passed_s - ran_s
            if abs(lost_s) >= LEAST_S:
                self._lost_s += lost_s
                log.warning("the service was interrupted, or the clock was set", seconds=round(lost_s, 1))
            self._last = now
            return self._lost_s

    def _run(self) -> None:
        while not self._ending.wait(TICK_S):
            self.lost_s()
