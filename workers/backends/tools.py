"""Interfaces of the tools that examine a kernel: sanitizers and profilers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from evo.trial.results import Profiled, Sanitized
from workers.build import Unit
from workers.build.kernel import KernelFile
from workers.system.interruption import Interruption


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One case of a candidate that a tool examines.

    Attributes:
        kernel: compiled kernel, for tools that run it.
        unit: source for the problem of this case, for tools that compile it again.
        inputs: folder with the bytes of each input, ``NAME.bin``.
        threads: number of threads that the kernel may use.
        device_uuid: UUID of the device that timed the candidate.
        interruption: object that ends the tool when the job must stop.
        call_us: time of a call on the device in µs, or None if unknown.
        builds: folder in which a tool keeps its programs for later cases of the kernel, or None if this is the only
            case.
    """

    kernel: KernelFile
    unit: Unit
    inputs: Path
    threads: int
    device_uuid: str
    interruption: Interruption = field(default_factory=Interruption)
    call_us: float | None = None
    builds: Path | None = None


class Sanitizer(Protocol):
    """Interface of a sanitizer. Faults of candidates and missing tools are results, not exceptions.

    Several threads may call `examine` concurrently.

    Attributes:
        at_once: maximum number of concurrent calls of `examine`.
        together: True if one call of `examine` may examine several cases.
    """

    at_once: int
    together: bool

    def examine(self, subjects: Sequence[Subject], *, timeout_s: float) -> Sequence[Sanitized]:
        """Examine cases of a candidate in one run of each tool. A finding does not name its case.

        Return one result per tool, in an order that does not depend on the cases. If `together` is False, `subjects`
        must contain exactly one case.

        Raises:
            GaveUp: the job was interrupted.
        """
        ...


class Profiler(Protocol):
    """Interface of a profiler. Faults of candidates and missing tools are results, not exceptions."""

    def profile(self, subject: Subject, *, cold: bool, timeout_s: float) -> Profiled:
        """Profile one launch of the kernel: the first, if a call has several.

        Args:
            cold: True to empty the caches before the launch. False to make untimed calls first, which fill the caches.

        Raises:
            GaveUp: the job was interrupted.
        """
        ...
