"""Runs kernel-evo's own CUDA kernels (`support.cu`): the anchor (a small fixed kernel), copies and buffer checks."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evo.device import Device
from evo.family import Launch
from evo.trial.outcome import CompileFailed
from workers.backends import Timer
from workers.backends.cuda.buffers import DeviceReferences, GuardedBuffer, Span
from workers.backends.cuda.compilers.nvrtc import NvrtcCompiler
from workers.backends.cuda.graph import GraphTimer
from workers.backends.cuda.launch import BoundKernel, cuda_errors
from workers.backends.cuda.machine.survey import CudaUnusableError
from workers.backends.cuda.memory import DeviceMemory
from workers.backends.distance import Distance
from workers.build import Unit
from workers.build.cache import Cache, cache_key
from workers.build.kernel import Argument

_COPY_BYTES = 4 * 256 * 16
"""Number of bytes that a block of the kernel `copy` copies: four 16-byte words per thread."""

_SPANS = 4096
"""Maximum number of checksums that one launch computes."""

_REFERENCES_SHARE = 8
"""The kept copies of expected outputs may fill the device's memory divided by this number."""


class SupportKernels:
    """The kernels of `support.cu`, loaded on one GPU.

    Args:
        cuda: CuPy's ``cuda``.
        stream: CuPy's stream on which the kernels run.
        memory: operations on device memory, in the order of this stream.
        binary: cubin of `support.cu`.
    """

    def __init__(self, cuda: Any, stream: Any, memory: DeviceMemory, device: Device, binary: bytes) -> None:
        self._cuda, self._stream, self._memory = cuda, stream, memory
        self._limits = {name: int(value) for name, value in device.limits.items()}
        with cuda_errors():
            self._module = cuda.function.Module()
            self._module.load(binary)
            counters = Argument(name="sum", role="output", dtype="uint64", shape=(_SPANS,))
            spans = Argument(name="spans", role="input", dtype="uint64", shape=(_SPANS, 2))
            self._counters, self._spans = (GuardedBuffer(each, memory) for each in (counters, spans))
        self._references = DeviceReferences(memory, (device.memory_bytes or 0) // _REFERENCES_SHARE)

    def anchor(self) -> Timer:
        """Return a timer of the anchor: a kernel with a fixed amount of arithmetic on every multiprocessor."""
        counter = self._counters.argument
        return self._timer(self._bound("anchor", self._limits["sm_count"], counter, sum=self._counters.pointer))

    def empty(self) -> Timer:
        return self._timer(self._bound("empty", 1, threads=32))

    def copies(self, size: int, sets: int = 1) -> list[Timer]:
        """Return two timers of copies between buffers: one of copies by a kernel, one of copies by the driver.

        Args:
            size: number of bytes per copy, a multiple of 16.
            sets: number of buffer pairs, which are used in rotation.
        """
        source, target = (Argument(name=name, role="output", dtype="uint8", shape=(size,)) for name in ("from", "to"))
        count = Argument(name="count", role="scalar", dtype="int64", value=size // 16)
        runtime = self._cuda.runtime
        with cuda_errors():
            buffers = [[GuardedBuffer(each, self._memory) for each in (source, target)] for _ in range(sets)]
        pairs = [{buffer.argument.name: buffer.pointer for buffer in pair} for pair in buffers]
        blocks = math.ceil(size / _COPY_BYTES)
        by_kernel = [self._bound("copy", blocks, source, target, count, **pair) for pair in pairs]
        kind, stream = runtime.memcpyDeviceToDevice, self._stream.ptr
        by_driver = [partial(runtime.memcpyAsync, pair["to"], pair["from"], size, kind, stream) for pair in pairs]
        return [GraphTimer(self._cuda, self._stream, calls, keep=buffers) for calls in (by_kernel, by_driver)]

    def checksums(self, spans: Sequence[Span]) -> list[int]:
        """Return one checksum per span of memory. Each launch computes up to `_SPANS` checksums."""
        parts = (spans[start : start + _SPANS] for start in range(0, len(spans), _SPANS))
        return [each for part in parts for each in self._checksums(part)]

    def _checksums(self, spans: Sequence[Span]) -> list[int]:
        count = Argument(name="count", role="scalar", dtype="int32", value=len(spans))
        pointers = {"spans": self._spans.pointer, "sum": self._counters.pointer}
        with cuda_errors():
            self._memory.write(self._spans.pointer, np.array(spans, np.uint64))
            self._counters.fill(0)
        arguments = (self._spans.argument, count, self._counters.argument)
        self._bound("checksums", max(self._grid, len(spans)), *arguments, **pointers)()
        return [int(each) for each in self._counted(len(spans))]

    def distance(self, buffer: GuardedBuffer, reference: NDArray[np.float64]) -> Distance:
        """Return the distance of a buffer from its expected values. See `workers.backends.cuda.buffers.Kernels`."""
        right, elements = self._references.buffer(reference), buffer.argument.elements
        found = replace(buffer.argument, name="found")  # an output may be named `sum`, like one of the counters
        count = Argument(name="count", role="scalar", dtype="int64", value=elements)
        pointers = {"found": buffer.pointer, "reference": right.pointer, "sum": self._counters.pointer}
        arguments = (found, right.argument, count, self._counters.argument)
        with cuda_errors():
            self._counters.fill(0)
        self._bound(f"distance_{buffer.argument.dtype}", self._grid, *arguments, **pointers)()
        counted = self._counted(4)
        max_abs, squares = counted[2:4].view(np.float64).tolist()
        unwritten, not_finite = int(counted[0]), int(counted[1])
        return Distance(elements=elements, unwritten=unwritten, not_finite=not_finite, squares=squares, max_abs=max_abs)

    def poison_shared(self, own_bytes: int) -> None:
        """Fill all shared memory with NaN, which reveals kernels that read shared memory before they write to it.

        Otherwise, such a kernel would read values that earlier thread blocks left there. Two launches fill the memory:
        one with the maximum shared memory per block, one with `own_bytes`, the kernel's shared memory per block.
        """
        everywhere = self._limits["sm_count"] * self._limits["max_blocks_per_sm"]
        for size in (self._limits["shared_memory_bytes"], own_bytes):
            words = Argument(name="words", role="scalar", dtype="int32", value=size // 4)
            launch = Launch(grid=(everywhere, 1, 1), block=(256, 1, 1), shared_memory_bytes=size)
            BoundKernel(self._poisoner, launch, (words,), {}, self._stream.ptr)()

    @cached_property
    def _poisoner(self) -> int:
        with cuda_errors():
            function: int = self._module.get_function("poison_shared").ptr
            attribute = self._cuda.driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._cuda.driver.funcSetAttribute(function, attribute, self._limits["shared_memory_bytes"])
        return function

    @property
    def _grid(self) -> int:
        """Number of blocks in a grid that fills every multiprocessor: 8 per multiprocessor."""
        return self._limits["sm_count"] * 8

    def _counted(self, count: int) -> NDArray[np.uint64]:
        """Wait for the kernels, and return the first `count` counters, to which the kernels add their results."""
        found = np.empty(count, np.uint64)
        with cuda_errors():
            self._memory.read(self._counters.pointer, found)
        return found

    def _bound(self, entry: str, blocks: int, *arguments: Argument, threads: int = 256, **pointers: int) -> BoundKernel:
        launch = Launch(grid=(blocks, 1, 1), block=(threads, 1, 1))
        return BoundKernel(self._module.get_function(entry).ptr, launch, arguments, pointers, self._stream.ptr)

    def _timer(self, kernel: BoundKernel) -> Timer:
        return GraphTimer(self._cuda, self._stream, [kernel], keep=self)


def support_binary(compiler: NvrtcCompiler, architecture: str, folder: Path) -> bytes:
    """Return the cubin of `support.cu`, which is compiled once per architecture and cached in `folder`.

    Raises:
        CudaUnusableError: support.cu does not compile.
    """
    source = files("workers.backends.cuda").joinpath("support.cu").read_text()
    cache, key = Cache(folder), cache_key("support", compiler.version, architecture, source)
    if (kept := cache.get(key)) is not None:
        return kept
    made = compiler.compile(Unit(source=source, architecture=architecture, entry="checksums"), timeout_s=60)
    if isinstance(made, CompileFailed):
        raise CudaUnusableError(f"kernel-evo's own kernels (support.cu) do not compile: {made.log}")
    cache.put(key, made.binary)
    return made.binary


def checksum(values: NDArray[np.uint8]) -> int:
    """Return the checksum of an array, computed on the host.

    The kernel `checksums` in `support.cu` gives the same result.
    """
    keys = np.arange(values.size, dtype=np.uint64) * np.uint64(256) + values + np.uint64(1)
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int(np.sum(keys ^ (keys >> np.uint64(31)), dtype=np.uint64))
