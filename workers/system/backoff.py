"""How long to wait for something that is away: longer each time, and never all workers at once."""

import random
import threading


class Patience:
    """Growing, jittered pauses that end early when the worker does.

    Args:
        first_s: the pause after the first failure; doubles up to `longest_s`.
    """

    def __init__(self, stopping: threading.Event, *, first_s: float, longest_s: float) -> None:
        self._stopping = stopping
        self._first_s = first_s
        self._longest_s = longest_s
        self._failures = 0
        self._jitter = random.Random()

    def wait(self) -> None:
        """Pause once more."""
        pause_s = min(self._longest_s, self._first_s * 2.0**self._failures)
        self._failures = min(self._failures + 1, 30)
        self._stopping.wait(pause_s * self._jitter.uniform(0.5, 1.0))

    def reset(self) -> None:
        """It answered: the next pause is a short one again."""
        self._failures = 0
