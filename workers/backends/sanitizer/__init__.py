"""Tools that watch a candidate do what it should not: each runs it once, apart, on a small case."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from evo.results import Sanitized
from workers.build import Unit
from workers.build.kernel import KernelFile
from workers.system.interruption import Interruption


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One case of a candidate, ready to be called, or to be built anew and called.

    Attributes:
        unit: the source rendered for this case's problem, with all it takes to compile it.
        inputs: a folder with the bytes of each input, ``NAME.bin``.
        threads: what the kernel may use.
        device_uuid: of the device it was timed on.
        interruption: of the job it is watched for.
    """

    kernel: KernelFile
    unit: Unit
    inputs: Path
    threads: int
    device_uuid: str
    interruption: Interruption = field(default_factory=Interruption)


class Sanitizer(Protocol):
    """Whoever implements this never raises for a bad candidate, nor for a tool that is absent: both are findings.

    Raises:
        GaveUp: the job was interrupted.
    """

    def examine(self, subject: Subject, *, timeout_s: float) -> Sequence[Sanitized]:
        """One result for each tool, in a fixed order."""
        ...
