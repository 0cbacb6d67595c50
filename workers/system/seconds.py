"""Time of the steps of one request or job."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Seconds:
    """Adds up seconds by step, in the order in which the steps came.

    Attributes:
        taken: seconds by name of the step; a step that raised is not in it.
    """

    def __init__(self) -> None:
        self.taken: dict[str, float] = {}

    @contextmanager
    def of(self, step: str) -> Iterator[None]:
        """Time the block."""
        begun = time.perf_counter()
        yield
        self.taken[step] = self.taken.get(step, 0.0) + time.perf_counter() - begun
