"""Measures the wall-clock time in which this process did not run.

Leases and budgets are stored as wall-clock times, because all processes use them and they must survive restarts. If the
process is stopped, the machine sleeps or the clock is set, the difference of two stored times is not the time in which
the service ran. This module measures the error.
"""

import threading
import time
from collections.abc import Callable

import structlog

TICK_S = 0.5
LONGEST_TICK_S = 3.0
"""If the time between two ticks is at least this number of seconds, the process counts as stopped. The delay of a tick
in a busy process is shorter."""

LEAST_S = 1.0
"""Minimum difference between the clocks, in seconds, that counts as an interruption. Slow corrections of the clock and
late ticks cause smaller differences."""

log = structlog.get_logger("service")


class Interruptions:
    """Measures the time in which this process did not run. Several threads may use one object.

    Args:
        wall: function that returns the seconds of the wall clock.
        steady: function that returns the seconds of a clock that is never set. The clock may stop while the machine
            sleeps.
    """

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady = wall, steady
        self._last = (wall(), steady())
        self._lost_s = 0.0
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clock", daemon=True)

    def start(self) -> None:
        """Start a thread that compares the clocks regularly."""
        self._last = (self._wall(), self._steady())
        self._thread.start()

    def close(self) -> None:
        """Stop comparing the clocks."""
        self._ending.set()

    def lost_s(self) -> float:
        """Return the total wall-clock seconds in which this process did not run since its start.

        If the clock was set back, the result may be negative.
        """
        with self._lock:
            now = (self._wall(), self._steady())
            passed_s, steady_s = (new - old for new, old in zip(now, self._last, strict=True))
            ran_s = steady_s if steady_s <= LONGEST_TICK_S else TICK_S
            lost_s = passed_s - ran_s
            if abs(lost_s) >= LEAST_S:
                self._lost_s += lost_s
                log.warning("the service was interrupted, or the clock was changed", seconds=round(lost_s, 1))
            self._last = now
            return self._lost_s

    def _run(self) -> None:
        while not self._ending.wait(TICK_S):
            self.lost_s()
