"""Interface of compilers, which compile a source to a binary for a target architecture."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from evo.device import Device
from evo.family import Launch
from evo.family.launch.entry import is_instance
from evo.family.source.flags import anchored, header_folders, linked_files
from evo.family.source.language import Language
from evo.trial.outcome import CompileFailed, OverResources


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A source to compile, with its target architecture and compiler settings.

    Attributes:
        architecture: target architecture, as in `Device.architecture`.
        entry: name of the first function that a call of the kernel launches.
        flags: flags of the family, which follow the compiler's default flags. Relative paths are relative to `root`.
        language: language of the source.
        folders: header folders that are searched before the header folders in `flags`. Their contents do not change
            while the process runs, and the binary does not depend on their paths.
        root: folder of the family; None if there is none.
        further: names of the other functions that a call launches.
        compiler: name of the compiler. If empty, the default compiler of the language is used.
        untrusted: True for the code of a variant, which no person has reviewed. This code is compiled in a sandbox if
            the system supports sandboxes.
    """

    source: str
    architecture: str
    entry: str
    flags: tuple[str, ...] = ()
    language: Language = "c"
    folders: tuple[Path, ...] = ()
    root: Path | None = None
    further: tuple[str, ...] = ()
    compiler: str = ""
    untrusted: bool = False

    @property
    def instances(self) -> list[str]:
        """C++ template instances among `entry` and `further`. A compiler generates them only on request."""
        return [each for each in (self.entry, *self.further) if is_instance(each)]

    @property
    def placed_flags(self) -> tuple[str, ...]:
        """The flags of the family, with relative paths replaced by absolute paths."""
        return self.flags if self.root is None else anchored(self.flags, str(self.root))

    @property
    def readable(self) -> tuple[str, ...]:
        """Files and folders that a compilation in a sandbox may read, in addition to those of the compiler."""
        roots = map(str, (*self.folders, *filter(None, [self.root])))
        return *roots, *header_folders(self.placed_flags), *linked_files(self.placed_flags)


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Resources that one launch of a kernel uses. An attribute is None if the compiler does not report it.

    Attributes:
        registers: registers per thread.
        shared_memory_bytes: static and dynamic shared memory per block in bytes.
        stack_bytes: size of the stack per thread in bytes.
        spill_bytes: bytes per thread of register spills, stores plus loads.
        occupancy: theoretical occupancy, a fraction from 0 to 1.
    """

    registers: int | None = None
    shared_memory_bytes: int | None = None
    stack_bytes: int | None = None
    spill_bytes: int | None = None
    occupancy: float | None = None

    def figures(self) -> dict[str, float]:
        """Return the resource usage by name, without unknown values, as stored in outcomes."""
        return {name: float(value) for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Artefact:
    """Result of compiling a unit: the binary, the compiler's output, and the resource usage.

    Attributes:
        log: complete output of the compiler, including warnings.
        figures: resources that the compiler reported, by name. They do not depend on the launch.
        ptx: PTX of a CUDA kernel, which drivers compile for GPUs that cannot run the binary. Empty for other kernels.
        reads: absolute paths of the files that the compiler read in addition to the source, or None if unknown.
        searched: absolute paths of the compiler's default header folders.
    """

    binary: bytes
    log: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    ptx: bytes = b""
    reads: tuple[str, ...] | None = None
    searched: tuple[str, ...] = ()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the binary in hexadecimal."""
        return hashlib.sha256(self.binary).hexdigest()


class Compiler(Protocol):
    """Compiles units. No device is needed.

    `compile` is thread-safe. Its result depends only on the unit, the `version`, and the headers that the compiler
    finds. A new header in an earlier folder of the search path can replace a header that was found. Cache keys
    therefore depend on the contents of the read files, and on the absence of files in earlier folders.
    """

    @property
    def version(self) -> str:
        """Name, version and default flags: all that affects the binary, except the unit and the files that are read."""
        ...

    @property
    def suffix(self) -> str:
        """File name suffix of binaries, e.g. ``.so``."""
        ...

    def compile(self, unit: Unit, *, timeout_s: float) -> Artefact | CompileFailed:
        """Compile one unit. If it has errors or exceeds the time limit, return an outcome with the log.

        Raises:
            EvoError: no working compiler is installed.
        """
        ...

    @property
    def sandbox(self) -> str:
        """Name of the sandbox in which untrusted units are compiled.

        Empty if the compiler does not work in a sandbox.
        """
        ...

    def resources(self, artefact: Artefact, launch: Launch | None, device: Device) -> Resources:
        """Return the resources that a launch of an artefact uses on a device."""
        ...

    def refusal(self, resources: Resources, launch: Launch | None, device: Device) -> OverResources | None:
        """Return an outcome with the device limit that a launch with these resources exceeds, or None if there is none.

        `workers.build.build` checks the limits of the policy.
        """
        ...
