"""Measures the durations of the steps of a request or job, and limits waits for other processes."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Result = TypeVar("Result")

TICK_S = 0.5
LONGEST_TICK_S = 3.0
"""If the time between two calls of `Countdown.left_s` is at least this number of seconds, the process counts as
stopped. The delay in a busy process is shorter."""


class Seconds:
    """Adds up the durations of steps.

    Attributes:
        taken: duration of each step in seconds, by name, in the order of the steps. Time in a step that raised an error
            is not included.
    """

    def __init__(self) -> None:
        self.taken: dict[str, float] = {}

    @contextmanager
    def of(self, step: str) -> Iterator[None]:
        """Add the duration of the ``with`` block to the duration of a step."""
        begun = time.perf_counter()
        yield
        self.taken[step] = self.taken.get(step, 0.0) + time.perf_counter() - begun


class Countdown:
    """Time limit of a wait for another process.

    Time during which this process is stopped does not count. The process may be stopped by SIGSTOP, in a frozen
    container, or in a suspended batch job. The awaited process is usually stopped at the same time, and would otherwise
    be blamed for a timeout.

    Args:
        limit_s: time limit in seconds.
        clock: function that returns the seconds of a monotonic clock.
    """

    def __init__(self, limit_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._left_s, self._clock = limit_s, clock
        self._last_s = clock()

    def left_s(self) -> float:
        """Return the seconds that are left, at least 0. Call this at least once per `TICK_S`."""
        now_s = self._clock()
        passed_s, self._last_s = now_s - self._last_s, now_s
        self._left_s -= passed_s if passed_s < LONGEST_TICK_S else TICK_S
        return self._left_s if self._left_s > 1e-3 else 0.0

    def until(self, wait: Callable[[float], Result]) -> Result:
        """Call a function until its result is true or the time limit is reached, and return its last result.

        Args:
            wait: function that waits at most the given number of seconds. The last call passes 0 seconds.
        """
        while True:
            step_s = min(TICK_S, self.left_s())
            if (result := wait(step_s)) or step_s == 0.0:
                return result
