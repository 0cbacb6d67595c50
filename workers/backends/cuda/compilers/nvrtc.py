"""Compiles CUDA sources to cubins with NVRTC."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

from evo.device import Device
from evo.errors import EvoError
from evo.family import Launch
from evo.family.launch.entry import symbol_of
from evo.family.source.flags import header_folders
from evo.trial.outcome import CompileFailed, OverResources
from workers.backends.cuda.compilers.compile_process import CompileProcesses
from workers.backends.cuda.compilers.nvrtc_library import Nvrtc, NvrtcMissingError
from workers.backends.cuda.compilers.occupancy import occupancy, registers_of_block
from workers.build import Artefact, Resources, Unit
from workers.build.contents import files_below
from workers.build.prefixed import removal_test, removal_warnings, removals
from workers.build.toolkit import include_folders
from workers.system.sandbox import sandbox_here

DEFAULT_FLAGS = ("--std=c++17", "--ptxas-options=-v")
_CACHING_SINCE = (12, 9)
"""First CUDA version whose NVRTC uses the driver's cache. The cache must be disabled, because ptxas reports no
registers for a cached binary, so the resource limits would have no effect
(https://github.com/NVIDIA/Fuser/pull/4694)."""
_TRIAL = """#include <cuda_fp16.h>
extern "C" __global__ void trial(float *x) { x[0] = __half2float(__float2half(x[1])); }
"""
_TRIAL_S = 60.0
_MOST_NAMES = 5
"""Maximum number of kernel names in an error message."""

_ARCHITECTURE = re.compile(r"sm_(\d+)[af]?")
_MOST_LOCAL_BYTES = 512 << 10
"""Maximum local memory of a thread in bytes. It is the same for all compute capabilities."""
_FIGURES: Mapping[str, str] = {
    "registers": r"Used (\d+) registers",
    "stack_bytes": r"(\d+) bytes stack frame",
    "spill_store_bytes": r"(\d+) bytes spill stores",
    "spill_load_bytes": r"(\d+) bytes spill loads",
    "static_shared_memory_bytes": r"(\d+) bytes smem",
    "barriers": r"used (\d+) barriers",
}


_INCLUDES = re.compile(r"include|import|embed|%:|\?\?=")
"""Matches sources that may include or embed a file."""

_COMPILED = re.compile(r"Compiling entry function '([^']+)'")


class NoNvrtcError(EvoError, FileNotFoundError):
    """NVRTC is not installed on this machine, or does not support the architecture."""


class NvrtcCompiler:
    """A `workers.build.Compiler` for CUDA C++, with one reusable process per concurrent compilation.

    Raises:
        NoNvrtcError: NVRTC is not installed.
    """

    suffix = ".cubin"

    def __init__(self) -> None:
        try:
            self._nvrtc = Nvrtc()
        except NvrtcMissingError:
            raise NoNvrtcError(
                "NVRTC, the CUDA compiler, is not installed; install kernel-evo with the extra `cuda13`, for example "
                "pip install -e '.[cuda13]', or with `cuda12` if the driver is older than 580. Estimates "
                "(--compile-only) only need the compiler: pip install 'cuda-toolkit[nvrtc,cudart,crt,cccl]==13.*'"
            ) from None
        self._processes = CompileProcesses("workers.backends.cuda.compilers.nvrtc_library")

    @cached_property
    def toolkit(self) -> tuple[int, int]:
        """CUDA version of the compiler: major and minor number."""
        return self._nvrtc.version

    @property
    def sandbox(self) -> str:
        """Name of the sandbox in which untrusted units are compiled. Empty if there is none."""
        return sandbox_here()

    @cached_property
    def version(self) -> str:
        return f"NVRTC {'.'.join(map(str, self.toolkit))} {' '.join(default_flags(self.toolkit))}"

    def compile(self, unit: Unit, *, timeout_s: float) -> Artefact | CompileFailed:
        self._check(unit.architecture)
        own, cuda = (
            [f"--include-path={folder}" for folder in folders] for folders in (unit.folders, include_folders())
        )
        options = [f"--gpu-architecture={unit.architecture}", *default_flags(self.toolkit)]
        options += [*own, *unit.placed_flags, *cuda]
        question = {"source": unit.source, "options": options, "names": unit.instances}
        answer = self._processes.of(unit).answer(question, timeout_s)
        if isinstance(answer, CompileFailed):
            return answer
        log = str(answer["log"])
        if answer["binary"] is None:
            return CompileFailed(log=log)
        binary, ptx = bytes.fromhex(str(answer["binary"])), str(answer["ptx"]).encode()
        reported = figures(log, symbol_of(unit.entry, ptx.decode()))
        if "registers" not in reported:
            return CompileFailed(log=f"{absent(unit.entry, log)}\n{log}".rstrip())
        reads = _reads(answer["headers"], unit)
        return Artefact(
            binary=binary,
            log="\n".join(filter(None, [log.rstrip(), *self._removed_macros(unit, question, reads or (), timeout_s)])),
            figures=reported,
            ptx=ptx,
            reads=reads,
            searched=include_folders(),
        )

    def _removed_macros(
        self, unit: Unit, question: Mapping[str, object], reads: Iterable[str], timeout_s: float
    ) -> Iterator[str]:
        """Yield a warning for each macro of the source that a header undefines. NVRTC itself does not warn."""
        places = removals(unit.source, map(Path, reads))
        if places:
            test = {**question, "source": removal_test(unit.source, places), "names": ()}
            answer = self._processes.of(unit).answer(test, timeout_s)
            log = answer.log if isinstance(answer, CompileFailed) else str(answer["log"])
            yield from removal_warnings(log, places, own=unit.folders)

    def resources(self, artefact: Artefact, launch: Launch | None, device: Device) -> Resources:
        reported = figures(artefact.log, launch.entry) if launch and launch.entry else artefact.figures
        found = {name: int(value) for name, value in reported.items()}
        dynamic = launch.shared_memory_bytes if launch else 0
        registers, shared = found.get("registers"), found.get("static_shared_memory_bytes", 0) + dynamic
        known = registers is not None and launch is not None
        return Resources(
            registers=registers,
            shared_memory_bytes=shared,
            stack_bytes=found.get("stack_bytes"),
            spill_bytes=found.get("spill_store_bytes", 0) + found.get("spill_load_bytes", 0),
            occupancy=occupancy(registers or 0, shared, _threads(launch), device.limits) if known else None,
        )

    def refusal(self, resources: Resources, launch: Launch | None, device: Device) -> OverResources | None:
        for resource, used, limit in _hard_limits(resources, launch, device.limits):
            if used > limit:
                return OverResources(resource=resource, used=used, limit=limit)
        return None

    def _check(self, architecture: str) -> None:
        match = _ARCHITECTURE.fullmatch(architecture)
        known = self._nvrtc.architectures
        if match is None or int(match[1]) not in known:
            names = ", ".join(f"sm_{each}" for each in known)
            remedy = "; older GPUs need the extra `cuda12`" if match and int(match[1]) < min(known) else ""
            product = self.version.partition(" --")[0]
            raise NoNvrtcError(f"{product} compiles for {names}, not for {architecture}{remedy}")


def failures(compiler: NvrtcCompiler, architectures: Iterable[str]) -> dict[str, str]:
    """Compile a small kernel for each architecture. Return the reasons for failures, by architecture."""
    found: dict[str, str] = {}
    for architecture in architectures:
        unit = Unit(source=_TRIAL, architecture=architecture, entry="trial", language="cuda")
        try:
            made = compiler.compile(unit, timeout_s=_TRIAL_S)
        except NoNvrtcError as error:
            found[architecture] = str(error)
            continue
        if isinstance(made, CompileFailed):
            found[architecture] = _remedy(made.log)
    return found


def _remedy(log: str) -> str:
    """Return the first line of the compiler's log, with a remedy if one is known."""
    first = log.strip().partition("\n")[0]
    if "builtin" in log:
        return f"{first}; reinstall the package that contains NVRTC, so that its two libraries have the same version"
    if "open source file" in log:
        return f"{first}; install CUDA's headers in the same version: pip install 'cuda-toolkit[cudart,crt,cccl]'"
    return first


def default_flags(toolkit: tuple[int, int]) -> tuple[str, ...]:
    """Return the NVRTC flags that kernel-evo always sets, for a CUDA version (major, minor)."""
    return (*DEFAULT_FLAGS, "--no-cache") if toolkit >= _CACHING_SINCE else DEFAULT_FLAGS


def figures(log: str, entry: str) -> dict[str, float]:
    """Return the resources that ptxas reports for an entry function, e.g. ``registers``."""
    after = log.partition(f"Compiling entry function '{entry}'")[2].partition("Compiling entry function")[0]
    matches = {name: re.search(pattern, after) for name, pattern in _FIGURES.items()}
    return {name: float(match[1]) for name, match in matches.items() if match}


def absent(entry: str, log: str) -> str:
    """Return the reason why ptxas reports no resources for `entry`, with the kernels that the binary contains."""
    names = list(dict.fromkeys(_COMPILED.findall(log)))
    if entry in names:
        return f"ptxas does not report the resources of `{entry}`"
    missing = f"the kernel `{entry}`, which is the `entry` of family.toml, is not found in the binary"
    if not names:
        return (
            f'{missing}, which contains no kernels; write `extern "C" __global__ void {entry}(…)`. A template needs an '
            "instance, e.g. `template __global__ void my_kernel<float>(const float *, float *);`"
        )
    mangled = f"{len(entry)}{entry}"
    alike = [name for name in names if mangled in name]
    ways = [f'entry = "{name}"' for name in (alike or names)[:_MOST_NAMES]]
    plain = any(f"{mangled}I" not in name for name in alike)  # template instances have no C names
    first = 'write `extern "C"` before `__global__`, or set ' if plain else "set "
    return f"{missing}; {first}{' or '.join(ways)} in family.toml"


def _reads(headers: object, unit: Unit) -> tuple[str, ...] | None:
    """Return the files that NVRTC read.

    If this version of NVRTC does not report them, return all files that NVRTC may have read, or None if there are too
    many.
    """
    if isinstance(headers, list):
        return tuple(headers)
    folders = (*map(str, unit.folders), *header_folders(unit.placed_flags), *include_folders())
    return files_below(folders) if _INCLUDES.search(unit.source) else ()


def _threads(launch: Launch | None) -> int:
    return launch.block[0] * launch.block[1] * launch.block[2] if launch else 0


def _hard_limits(
    resources: Resources, launch: Launch | None, limits: Mapping[str, float]
) -> Iterator[tuple[str, float, float]]:
    """Yield the name, the used amount and the limit of each resource. A launch fails if it exceeds one of these limits.

    `workers.build.launch_checks` checks the other limits.
    """
    unlimited = float("inf")
    threads = _threads(launch)
    yield "shared_memory_bytes", resources.shared_memory_bytes or 0, limits.get("shared_memory_bytes", unlimited)
    yield "threads", threads, limits.get("max_threads", unlimited)
    registers = registers_of_block(resources.registers or 0, threads)
    yield "registers of a block", registers, limits.get("registers", unlimited)
    yield "stack_bytes", resources.stack_bytes or 0, _MOST_LOCAL_BYTES
