"""Measures the durations of the steps of a request or job."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


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
        """Time the block as part of a step."""
        begun = time.perf_counter()
        yield
        self.taken[step] = self.taken.get(step, 0.0) + time.perf_counter() - begun
