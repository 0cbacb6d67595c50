"""From rendered source to a binary for a named target: the contract every compiler keeps."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from evo.device import Device
from evo.family import TensorMap
from evo.family.flags import anchored
from evo.family.language import Language
from evo.trial.outcome import CompileFailed, OverResources


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How often a kernel is started at once; None in its place means a plain function call (CPU).

    Attributes:
        grid, block: blocks and threads, (x, y, z).
        shared_memory_bytes: dynamic shared memory of a block.
        tensor_maps: of arguments, passed behind them.
        programmatic: programmatic dependent launch (`Objective.launch == "pdl"`).
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_memory_bytes: int = 0
    tensor_maps: tuple[TensorMap, ...] = ()
    programmatic: bool = False


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One source to compile.

    Attributes:
        architecture: the target, as in `Device.architecture`.
        entry: the exported function.
        flags: those of the family, after the compiler's own defaults; relative paths start at the family's folder.
        language: of the source.
        folders: searched for headers before those of the flags. Their contents do not change while the process lives,
            and where they lie does not matter to the binary.
        root: the family's folder.
    """

    source: str
    architecture: str
    entry: str
    flags: tuple[str, ...] = ()
    language: Language = "c"
    folders: tuple[Path, ...] = ()
    root: Path | None = None

    @property
    def placed_flags(self) -> tuple[str, ...]:
        """The flags with relative paths made absolute."""
        return self.flags if self.root is None else anchored(self.flags, str(self.root))


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What one kernel uses on its target; None where the compiler does not say.

    Attributes:
        registers: per thread.
        shared_memory_bytes: static and dynamic, per block.
        occupancy: theoretical, 0 to 1.
    """

    registers: int | None = None
    shared_memory_bytes: int | None = None
    stack_bytes: int | None = None
    spill_bytes: int | None = None
    occupancy: float | None = None

    def figures(self) -> dict[str, float]:
        """The known ones by name, as an outcome keeps them."""
        return {name: float(value) for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Artefact:
    """A compiled unit.

    Attributes:
        log: everything the compiler said, warnings included.
        figures: what the log says of resources, independent of the launch; the compiler's own names.
        ptx: of a CUDA kernel, what drivers compile for GPUs that the binary does not run on.
        reads: absolute paths of the files that the compiler read besides the source; None where it does not say.
        searched: absolute paths of the folders, apart from those of the unit, that the compiler looks for headers in.
    """

    binary: bytes
    log: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    ptx: bytes = b""
    reads: tuple[str, ...] | None = None
    searched: tuple[str, ...] = ()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the binary, in hexadecimal; equal binaries are measured once."""
        return hashlib.sha256(self.binary).hexdigest()


class Compiler(Protocol):
    """Compiles units off the device.

    Contract: `compile` is called from several threads at once, never touches a device, and is a function of the unit,
    the `version`, the contents of the files it read and the absence of others with their names, so its result may be
    cached under them.
    """

    @property
    def version(self) -> str:
        """Name, version and default flags: whatever changes a binary apart from the unit."""
        ...

    @property
    def suffix(self) -> str:
        """Of a binary's file name, e.g. ``.so``."""
        ...

    def compile(self, unit: Unit, *, timeout_s: float) -> Artefact | CompileFailed:
        """Compile one unit; a refusal or a time-out is an outcome, whose log names what to change.

        Raises:
            EvoError: there is no working compiler here; the message says how to get one.
        """
        ...

    def resources(self, artefact: Artefact, launch: Launch | None, device: Device) -> Resources:
        """What the artefact uses when launched like this on a device with these limits."""
        ...

    def refusal(self, resources: Resources, launch: Launch | None, device: Device) -> OverResources | None:
        """Why this cannot launch on the target at all; the policy's own gates are `workers.build.gate`'s."""
        ...
