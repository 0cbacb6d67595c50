"""The compiler of CUDA devices: NVRTC or nvcc for CUDA C++, Triton for Triton."""

from functools import cached_property

from evo.trial.outcome import CompileFailed
from workers.backends.cuda.compilers.nvcc import NvccCompiler
from workers.backends.cuda.compilers.nvrtc import NvrtcCompiler
from workers.backends.cuda.compilers.triton import TritonCompiler
from workers.build import Artefact, Unit


class CudaCompiler(NvrtcCompiler):
    """A `workers.build.Compiler` that compiles each unit by its language and by what its family asks for.

    Raises:
        NoNvrtcError: NVRTC is not installed; the message names the remedy.
    """

    def __init__(self) -> None:
        super().__init__()
        self._triton = TritonCompiler()
        self._nvcc = NvccCompiler()

    @cached_property
    def version(self) -> str:
        return f"{super().version}; {self._triton.version}; {self._nvcc.version}"

    def compile(self, unit: Unit, *, timeout_s: float) -> Artefact | CompileFailed:
        if unit.language == "triton":
            return self._triton.compile(unit, timeout_s=timeout_s)
        if unit.compiler == "nvcc":
            return self._nvcc.compile(unit, timeout_s=timeout_s)
        return super().compile(unit, timeout_s=timeout_s)
