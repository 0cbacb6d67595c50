"""Compiler for CUDA devices, which uses NVRTC, nvcc or Triton. None of them needs a GPU, a driver or PyTorch."""

import re
from functools import cached_property

from evo.errors import EvoError
from evo.trial.outcome import CompileFailed
from workers.backends.cuda.compilers.compile_process import CompileProcesses
from workers.backends.cuda.compilers.nvcc import NvccCompiler
from workers.backends.cuda.compilers.nvrtc import NvrtcCompiler, figures
from workers.backends.cuda.compilers.triton_library import installed_version
from workers.build import Artefact, Unit
from workers.build.cached import surroundings


class CudaCompiler(NvrtcCompiler):
    """A `workers.build.Compiler` that compiles each unit with NVRTC, nvcc or Triton.

    The unit's language and its family's `compiler` key select one of the three.

    Raises:
        NoNvrtcError: NVRTC is not installed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._triton = TritonCompiler()
        self._nvcc = NvccCompiler()

    @cached_property
    def version(self) -> str:
        return f"{super().version}; {self._triton.version}; {self._nvcc.version}{surroundings(nvcc=True)}"

    def compile(self, unit: Unit, *, timeout_s: float) -> Artefact | CompileFailed:
        if unit.language == "triton":
            return self._triton.compile(unit, timeout_s=timeout_s)
        if unit.compiler == "nvcc":
            return self._nvcc.compile(unit, timeout_s=timeout_s)
        return super().compile(unit, timeout_s=timeout_s)


_ARCHITECTURE = re.compile(r"sm_\d+a?")


class NoTritonError(EvoError, FileNotFoundError):
    """Triton is not installed on this machine, or does not support the architecture."""


class TritonCompiler:
    """Compiles units in the language ``triton``, with one process per concurrent compilation."""

    def __init__(self) -> None:
        self._processes = CompileProcesses("workers.backends.cuda.compilers.triton_library")

    @cached_property
    def version(self) -> str:
        """Name and version of Triton, or ``without Triton`` if it is not installed."""
        found = installed_version()
        return f"Triton {found}" if found else "without Triton"

    def compile(self, unit: Unit, *, timeout_s: float) -> Artefact | CompileFailed:
        """Compile one unit.

        Raises:
            NoTritonError: Triton is not installed, or the architecture is not an NVIDIA architecture.
        """
        if installed_version() is None:
            raise NoTritonError(
                "the kernel needs Triton, which is not installed on this worker; install Triton into the worker's "
                "environment, e.g. pip install 'triton>=3.6'"
            )
        if _ARCHITECTURE.fullmatch(unit.architecture) is None:
            able = f"{self.version} compiles only for NVIDIA architectures, e.g. sm_90"
            raise NoTritonError(f"{able}, not for {unit.architecture}; choose an NVIDIA GPU")
        question = {"source": unit.source, "architecture": unit.architecture}
        answer = self._processes.of(unit).answer(question, timeout_s)
        if isinstance(answer, CompileFailed):
            return answer
        log = str(answer["log"])
        if answer["binary"] is None:
            return CompileFailed(log=log)
        return Artefact(
            binary=bytes.fromhex(str(answer["binary"])),
            log=log,
            figures=figures(log, unit.entry),
            ptx=str(answer["ptx"]).encode(),
            reads=(),
        )
