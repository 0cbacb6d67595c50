"""Growing pauses with jitter between retries, so that workers do not all retry at the same time."""

import random
import threading


class Backoff:
    """Growing pauses with jitter. A pause ends early when the worker stops.

    Args:
        first_s: length of the pause after the first failure, in seconds. Each pause is twice as long as the previous
            one, up to `longest_s`.
    """

    def __init__(self, stopping: threading.Event, *, first_s: float, longest_s: float) -> None:
        self._stopping = stopping
        self._first_s = first_s
        self._longest_s = longest_s
        self._failures = 0
        self._jitter = random.Random()

    def wait(self) -> None:
        """Wait for the next pause."""
        pause_s = min(self._longest_s, self._first_s * 2.0**self._failures)
        self._failures = min(self._failures + 1, 30)
        self._stopping.wait(pause_s * self._jitter.uniform(0.5, 1.0))

    def reset(self) -> None:
        """Start again with the first pause. Call this after a success."""
        self._failures = 0
