"""Exponential backoff with jitter, so that workers do not all retry at the same time."""

import random
import threading


class Backoff:
    """Exponential backoff with jitter. A pause ends early when the worker stops.

    Args:
        first_s: duration of the pause after the first failure in seconds. It is doubled after each additional failure,
            up to `longest_s`. Each pause is shortened at random, at most to half of this duration.
    """

    def __init__(self, stopping: threading.Event, *, first_s: float, longest_s: float) -> None:
        self._stopping = stopping
        self._first_s = first_s
        self._longest_s = longest_s
        self._failures = 0
        self._jitter = random.Random()

    def wait(self) -> None:
        """Pause, and double the next pause."""
        pause_s = min(self._longest_s, self._first_s * 2.0**self._failures)
        self._failures = min(self._failures + 1, 30)
        self._stopping.wait(pause_s * self._jitter.uniform(0.5, 1.0))

    def reset(self) -> None:
        """Reset the duration of the next pause to `first_s`. Call this after a success."""
        self._failures = 0
