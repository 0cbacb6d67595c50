"""What counts how a kernel uses a device: one launch on the searched problem, in a process of its own."""

from typing import Protocol

from evo.results import Profiled
from workers.backends.sanitizer import Subject


class Profiler(Protocol):
    """Whoever implements this never raises for a bad candidate, nor for a tool that is absent: both are told.

    Raises:
        GaveUp: the job was interrupted.
    """

    def profile(self, subject: Subject, *, cold: bool, timeout_s: float) -> Profiled:
        """Count one launch; `cold` empties the caches before it."""
        ...
