"""Compiles CUDA sources to cubins with nvcc, for families with ``compiler = "nvcc"``.

Unlike NVRTC, nvcc lets kernels include headers of the host's standard library.
"""

import os
import re
import shutil
import subprocess
import sys
from functools import cached_property
from pathlib import Path

from evo.errors import EvoError
from evo.family.launch.entry import symbol_of
from evo.trial.outcome import CompileFailed
from workers.backends.cuda.compilers.nvrtc import absent, figures
from workers.backends.cuda.compilers.nvrtc_library import without_times
from workers.build import Artefact, Unit
from workers.build.contents import listed_files, search_list
from workers.build.prefixed import write_source
from workers.build.toolkit import in_wheels, include_folders
from workers.system.program import run
from workers.system.sandbox import environment, sandbox_here, sandboxed
from workers.system.scratch import scratch

_TOOLKIT = Path("/usr/local/cuda/bin/nvcc")
_ANSWER_S = 60.0
_RELEASE = re.compile(r"\bV(\d[\d.]*)")
_UNFIT = re.compile(r"nvcc fatal\s*:.*(?:gpu architecture|host compiler|Cannot find compiler)|not supported! The nvcc")
"""Matches the errors of nvcc if it does not support the GPU or the machine's C++ compiler."""


class NoNvccError(EvoError, FileNotFoundError):
    """nvcc is not installed on this machine, or does not support the architecture or the C++ compiler."""


class NvccCompiler:
    """Compiles units with nvcc. Each compilation runs in a separate process."""

    @cached_property
    def command(self) -> str | None:
        """Path of nvcc from ``PATH``, the CUDA toolkit or NVIDIA's Python package, or None if nvcc is not installed."""
        found = shutil.which("nvcc")
        others = [path for path in (_TOOLKIT, *in_wheels("bin", "nvcc")) if path.is_file()]
        return found or next((str(path) for path in others), None)

    @cached_property
    def version(self) -> str:
        """Name and version of nvcc, or ``without nvcc`` if it is not installed or does not work."""
        if self.command is None:
            return "without nvcc"
        try:
            asked = [self.command, "--version"]
            said = subprocess.run(asked, capture_output=True, text=True, timeout=_ANSWER_S, check=True).stdout
        except (OSError, subprocess.SubprocessError):
            return "without nvcc"
        return f"nvcc {found[1]}" if (found := _RELEASE.search(said)) else "without nvcc"

    def compile(self, unit: Unit, *, timeout_s: float) -> Artefact | CompileFailed:
        """Compile one unit.

        Raises:
            NoNvccError: nvcc is not installed, or does not support the unit's architecture or the host's C++ compiler.
        """
        if self.command is None or self.version == "without nvcc":
            raise NoNvccError(
                'family.toml has compiler = "nvcc", but nvcc is not installed or does not work on this worker; install '
                "the CUDA toolkit and add nvcc to the PATH, or remove the key to compile with NVRTC"
            )
        with scratch() as folder:
            # relative names, so that the binary contains no paths of this machine
            source = write_source(unit.source + _instances(unit.instances), folder, ".cu")
            options = ["-cubin", f"-arch={unit.architecture}", "-std=c++17", "-Xptxas", "-v"]
            options += [*(f"-I{each}" for each in unit.folders), *unit.placed_flags]
            options += ["-keep", "-keep-dir", ".", "-MD", "-MF", "kernel.d", source, "-o", "kernel.cubin"]
            status, said = self._run([self.command, *options], unit, folder, timeout_s)
            log = without_times(said)
            if status is None:
                return CompileFailed(log=f"nvcc was stopped after {timeout_s:g} s\n{log}".strip())
            if status != 0:
                if _UNFIT.search(log):
                    raise NoNvccError(f"{self.version} cannot compile for {unit.architecture}: {log[:500]}")
                return CompileFailed(log=log or f"nvcc ended with status {status} without a message")
            ptx = (folder / source).with_suffix(".ptx").read_bytes()
            symbol = symbol_of(unit.entry, ptx.decode())
            found = figures(log, symbol)
            if "registers" not in found:
                return CompileFailed(log=f"{absent(unit.entry, log)}\n{log}".rstrip())
            binary, read = (folder / "kernel.cubin").read_bytes(), listed_files(folder / "kernel.d")
        reads = None if read is None else tuple(name for name in read if not name.startswith(f"{folder}/"))
        return Artefact(binary=binary, log=log, figures=found, ptx=ptx, reads=reads, searched=self._searched)

    def _run(self, command: list[str], unit: Unit, folder: Path, timeout_s: float) -> tuple[int | None, str]:
        if not (unit.untrusted and sandbox_here()):
            return run(command, folder, timeout_s)
        reads = (*unit.readable, *include_folders(), sys.prefix)
        return run(sandboxed(command, reads=reads, writes=[folder]), folder, timeout_s, environment())

    @cached_property
    def _searched(self) -> tuple[str, ...]:
        """Absolute paths of the default header folders of nvcc and of the host's compiler."""
        command = [self.command or "nvcc", "-E", "-x", "cu", "-Xcompiler", "-v", os.devnull]
        with scratch() as folder:
            _, said = run(command, folder, _ANSWER_S)
        return tuple(dict.fromkeys(search_list(said)))


def _instances(names: list[str]) -> str:
    """Return lines of host code that use the given template instances, so that nvcc compiles these instances."""
    lines = (
        f"__attribute__((used)) static void *const kernel_evo_instance_{index} = (void *)({name});\n"
        for index, name in enumerate(names)
    )
    return "\n" + "".join(lines) if names else ""
