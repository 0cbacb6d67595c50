"""Profilers: count how a kernel uses a device, in one launch on the searched problem and in a separate process."""

from typing import Protocol

from evo.trial.results import Profiled
from workers.backends.sanitizer import Subject


class Profiler(Protocol):
    """Contract: failures of a candidate and missing tools are results, never exceptions.

    Raises:
        GaveUp: the job was interrupted.
    """

    def profile(self, subject: Subject, *, cold: bool, timeout_s: float) -> Profiled:
        """Profile one launch; `cold` empties the caches before it."""
        ...
