"""Compiler contract: from a rendered source to a binary for a named target."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

from evo import family
from evo.device import Device
from evo.family import TensorMap
from evo.family.launch.entry import is_instance, symbol_of
from evo.family.source.flags import anchored, header_folders, linked_files
from evo.family.source.language import Language
from evo.trial.outcome import CompileFailed, OverResources


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Launch configuration of a GPU kernel; CPU kernels have None instead.

    Attributes:
        grid, block: blocks and threads, (x, y, z).
        shared_memory_bytes: dynamic shared memory of a block.
        tensor_maps: tensor maps of arguments, passed after the arguments.
        programmatic: programmatic dependent launch (`Objective.launch == "pdl"`).
        entry: function to start; empty: the kernel's entry.
        arguments: names of its arguments in order; empty: those of the kernel.
        further: launches that follow in the same call, in order.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_memory_bytes: int = 0
    tensor_maps: tuple[TensorMap, ...] = ()
    programmatic: bool = False
    entry: str = ""
    arguments: tuple[str, ...] = ()
    further: tuple["Launch", ...] = ()

    @classmethod
    def of(cls, resolved: family.Launch, *, programmatic: bool = False) -> "Launch":
        """Return the launch from the family's resolved launch of a config."""
        further = tuple(cls.of(each, programmatic=programmatic) for each in resolved.further)
        return cls(**{**vars(resolved), "further": further}, programmatic=programmatic)

    def named(self, ptx: str) -> "Launch":
        """Return a copy whose entries are symbols of the PTX."""
        further = tuple(each.named(ptx) for each in self.further)
        return replace(self, entry=symbol_of(self.entry, ptx) if self.entry else "", further=further)

    @property
    def each(self) -> tuple["Launch", ...]:
        """All launches of a call, in order."""
        return (self, *self.further)


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One source to compile.

    Attributes:
        architecture: the target, as in `Device.architecture`.
        entry: the exported function.
        further: other functions that a call launches.
        flags: the family's flags, passed after the compiler's defaults; relative paths start at the family's folder.
        language: language of the source.
        folders: header folders, searched before those of the flags. Their contents do not change while the process
            runs, and the binary does not depend on their paths.
        root: the family's folder.
        compiler: which compiler of the language; empty: the usual one.
        untrusted: True for unreviewed proposed code, which is compiled in a sandbox if the machine has one.
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
        """Template instances among the functions; a build contains them only on request."""
        return [each for each in (self.entry, *self.further) if is_instance(each)]

    @property
    def placed_flags(self) -> tuple[str, ...]:
        """The flags with relative paths made absolute."""
        return self.flags if self.root is None else anchored(self.flags, str(self.root))

    @property
    def readable(self) -> tuple[str, ...]:
        """Files and folders that a compilation may read in addition to the compiler's own."""
        roots = map(str, (*self.folders, *filter(None, [self.root])))
        return *roots, *header_folders(self.placed_flags), *linked_files(self.placed_flags)


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Resource usage of one kernel on its target; None if the compiler does not report it.

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
        """Return the known values by name, as an outcome stores them."""
        return {name: float(value) for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Artefact:
    """A compiled unit.

    Attributes:
        log: the compiler's full output, including warnings.
        figures: resource usage from the log, independent of the launch, under the compiler's names.
        ptx: PTX of a CUDA kernel, which drivers compile for GPUs that cannot run the binary.
        reads: absolute paths of the files that the compiler read in addition to the source; None if unknown.
        searched: absolute paths of the compiler's header folders, without those of the unit.
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

    Contract: `compile` is thread-safe and never uses a device. Its result depends only on the unit, the `version`, the
    contents of the files it reads, and the absence of files that would be read instead. It may be cached by these.
    """

    @property
    def version(self) -> str:
        """Name, version and default flags: everything that affects the binary, except the unit."""
        ...

    @property
    def suffix(self) -> str:
        """File name suffix of a binary, e.g. ``.so``."""
        ...

    def compile(self, unit: Unit, *, timeout_s: float) -> Artefact | CompileFailed:
        """Compile one unit. A compile error or a time-out is returned as an outcome with the log.

        Raises:
            EvoError: no working compiler is installed; the message says how to get one.
        """
        ...

    @property
    def sandbox(self) -> str:
        """The parts that confine compilations of untrusted units; empty if it does not work confined."""
        ...

    def resources(self, artefact: Artefact, launch: Launch | None, device: Device) -> Resources:
        """Return the resources that the artefact uses with this launch on a device with these limits."""
        ...

    def refusal(self, resources: Resources, launch: Launch | None, device: Device) -> OverResources | None:
        """Return the limit that prevents the launch, or None. `workers.build.build` checks the policy's limits."""
        ...
