"""Sanitizers: tools that detect forbidden behaviour of a candidate, in a process of their own."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from evo.trial.results import Sanitized
from workers.build import Unit
from workers.build.kernel import KernelFile
from workers.system.interruption import Interruption


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One case of a candidate, ready to be called, or to be rebuilt and called.

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
    """Contract: failures of a candidate and missing tools are findings, never exceptions. `examine` is thread-safe.

    Attributes:
        at_once: subjects that may be examined at the same time.

    Raises:
        GaveUp: the job was interrupted.
    """

    at_once: int

    def examine(self, subject: Subject, *, timeout_s: float) -> Sequence[Sanitized]:
        """Return one result per tool, in a fixed order."""
        ...
