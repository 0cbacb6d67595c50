"""Contracts of the tools that examine a kernel: sanitizers and profilers."""

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
    """One case of a candidate that a tool examines. The tool calls the compiled kernel, or compiles the kernel again.

    Attributes:
        unit: source for the problem of this case, with the data that is needed to compile it.
        inputs: folder with the bytes of each input, ``NAME.bin``.
        threads: number of threads that the kernel may use.
        device_uuid: UUID of the device that timed the candidate.
        interruption: object that signals that the job must stop.
        call_us: time of a call on the device, or None if unknown.
        builds: folder in which a tool keeps its programs for further cases of the kernel. None if there are no further
            cases.
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
    """Contract of a sanitizer. Faults of a candidate and missing tools are results, never exceptions.

    Several threads may call `examine` at once.

    Attributes:
        at_once: maximum number of subjects that may be examined concurrently.

    Raises:
        GaveUp: the job was interrupted.
    """

    at_once: int

    def examine(self, subject: Subject, *, timeout_s: float) -> Sequence[Sanitized]:
        """Run the tools on one case of a candidate. Return one result per tool, in a fixed order."""
        ...


class Profiler(Protocol):
    """Contract of a profiler. Faults of a candidate and missing tools are results, never exceptions.

    Raises:
        GaveUp: the job was interrupted.
    """

    def profile(self, subject: Subject, *, cold: bool, timeout_s: float) -> Profiled:
        """Profile one launch. If `cold` is True, the caches are emptied before the launch."""
        ...
