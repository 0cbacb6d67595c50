"""Launches kernels through the CUDA driver, with programmatic dependent launch if requested."""

import ctypes
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from evo.export.loader.tensor_map import TensorMapError, parameters
from evo.family import Launch, TensorMap
from workers.backends import DeviceLostError, LaunchError
from workers.backends.scalars import scalar
from workers.build.kernel import Argument, Step

OUT_OF_MEMORY = 2
STICKY = frozenset({214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999})
"""CUDA errors after which the context is unusable, e.g. illegal address, misaligned access, launch failure and ECC."""

_PROGRAMMATIC_STREAM_SERIALIZATION = 6
_SHARED_SIZE_BYTES = 1
"""Value of the CUDA constant ``CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES``."""

_EXTERNAL = 1
"""Value of the CUDA constant ``CU_EVENT_RECORD_EXTERNAL``."""


class _Attribute(ctypes.Structure):
    """CUDA's struct ``CUlaunchAttribute``: an id and a union of 64 bytes."""

    _fields_ = (
        ("id", ctypes.c_int),
        ("padding", ctypes.c_char * 4),
        ("value", ctypes.c_int),
        ("rest", ctypes.c_char * 60),
    )


class _Config(ctypes.Structure):
    """CUDA's struct ``CUlaunchConfig``."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_memory_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("attribute_count", ctypes.c_uint),
    )


@dataclass(frozen=True, kw_only=True)
class Restore:
    """An operation that restores the contents of device memory before a call.

    Attributes:
        pointer: address of the memory.
        size: size in bytes.
        original: address of the original contents. If None, the memory is filled with `pattern`.
        pattern: eight bytes with copies of one element.
    """

    pointer: int
    size: int
    original: int | None = None
    pattern: bytes = b""

    def enqueue(self, stream: int) -> None:
        """Enqueue the copy or fill on a stream."""
        on, driver = ctypes.c_void_p(stream), library()
        if self.original is None:
            self._fill(driver, on)
            return
        source = ctypes.c_uint64(self.original)
        _check(driver.cuMemcpyDtoDAsync_v2(ctypes.c_uint64(self.pointer), source, ctypes.c_size_t(self.size), on))

    def _fill(self, driver: Any, on: ctypes.c_void_p) -> None:
        """Enqueue a fill with the pattern.

        The driver fills with 1, 2 or 4 bytes, so patterns with a period of 8 bytes take two fills.
        """
        for width, fill in ((1, driver.cuMemsetD8Async), (2, driver.cuMemsetD16Async), (4, driver.cuMemsetD32Async)):
            word = self.pattern[:width]
            if word * (8 // width) == self.pattern:
                count = ctypes.c_size_t(self.size // width)
                _check(fill(ctypes.c_uint64(self.pointer), _word(word), count, on))
                return
        one, rows, pitch = ctypes.c_size_t(1), ctypes.c_size_t(self.size // 8), ctypes.c_size_t(8)
        for half in (0, 4):
            to, value = ctypes.c_uint64(self.pointer + half), _word(self.pattern[half : half + 4])
            _check(driver.cuMemsetD2D32Async(to, pitch, value, one, rows, on))


class BoundKernel:
    """A kernel function with its launch configuration and its arguments, ready to be launched on a stream.

    Args:
        function: CUDA driver handle (CUfunction).
        pointers: device addresses of the buffers by argument name.
        stream: CUDA driver handle (CUstream).

    Raises:
        LaunchError: an argument cannot be passed, or a tensor map cannot be created.
    """

    def __init__(
        self, function: int, launch: Launch, arguments: Sequence[Argument], pointers: dict[str, int], stream: int
    ) -> None:
        self._function = ctypes.c_void_p(function)
        self._values = [_value(argument, pointers) for argument in arguments]
        at = len(arguments) if launch.maps_at is None else launch.maps_at
        self._values[at:at] = [value for each in launch.tensor_maps for value in _mapped(each, pointers)]
        addresses = [ctypes.cast(ctypes.byref(value), ctypes.c_void_p) for value in self._values]
        self._parameters = (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
        self._attribute = _Attribute(id=_PROGRAMMATIC_STREAM_SERIALIZATION, value=1)
        self._config = _Config(
            grid=launch.grid,
            block=launch.block,
            shared_memory_bytes=launch.shared_memory_bytes,
            stream=stream,
            attributes=ctypes.pointer(self._attribute),
            attribute_count=int(launch.programmatic),
        )

    def __call__(self) -> None:
        _check(library().cuLaunchKernelEx(ctypes.byref(self._config), self._function, self._parameters, None))


class BoundCall:
    """One call of a kernel with all its launches, ready to be enqueued on a stream.

    The call first fills the arguments that it must initialise, and then makes its launches in order.

    Args:
        functions: CUDA driver handle (CUfunction) of each step.
        steps: launches of the call, in order.
        arguments: arguments of the call.
        pointers: device addresses of the buffers by argument name.
        stream: CUDA driver handle (CUstream).
    """

    def __init__(
        self,
        functions: Sequence[int],
        steps: Sequence[Step],
        arguments: Sequence[Argument],
        pointers: dict[str, int],
        *,
        stream: int,
    ) -> None:
        self._stream = stream
        self._fills = [_filled(argument, pointers) for argument in arguments if argument.filled]
        self._kernels = [
            BoundKernel(function, step.launch, step.arguments, pointers, stream)
            for function, step in zip(functions, steps, strict=True)
        ]

    def __call__(self) -> None:
        for fill in self._fills:
            fill.enqueue(self._stream)
        for kernel in self._kernels:
            kernel()


def translated(status: int, text: str) -> Exception:
    """Return the exception for a CUDA error code, with `text` as its message."""
    if status == OUT_OF_MEMORY:
        return MemoryError(text)
    return (DeviceLostError if status in STICKY else LaunchError)(text)


@contextmanager
def cuda_errors() -> Iterator[None]:
    """Convert CuPy's errors inside the ``with`` block to `LaunchError`, `DeviceLostError` or `MemoryError`."""
    try:
        yield
    except RuntimeError as error:
        status = getattr(error, "status", None)
        if not isinstance(status, int):
            raise
        raise translated(status, str(error)) from None


def error_name(status: int) -> str:
    """Return the name of a CUDA error, e.g. ``CUDA_ERROR_ILLEGAL_ADDRESS``."""
    name = ctypes.c_char_p()
    library().cuGetErrorName(status, ctypes.byref(name))
    return name.value.decode() if name.value else f"CUDA error {status}"


def static_shared_bytes(function: int) -> int:
    """Return the static shared memory of a loaded kernel, in bytes."""
    size = ctypes.c_int()
    _check(library().cuFuncGetAttribute(ctypes.byref(size), _SHARED_SIZE_BYTES, ctypes.c_void_p(function)))
    return size.value


def record(event: int, stream: int) -> None:
    """Record an event on a stream. If a graph captures this operation, each launch of the graph records the event."""
    _check(library().cuEventRecordWithFlags(ctypes.c_void_p(event), ctypes.c_void_p(stream), _EXTERNAL))


def _check(status: int) -> None:
    if status:
        raise translated(status, error_name(status))


def _word(pattern: bytes) -> ctypes.c_uint:
    return ctypes.c_uint(int.from_bytes(pattern, sys.byteorder))


def _filled(argument: Argument, pointers: dict[str, int]) -> Restore:
    return Restore(pointer=pointers[argument.name], size=argument.bytes, pattern=argument.pattern)


def _value(argument: Argument, pointers: dict[str, int]) -> Any:
    if argument.role != "scalar":
        return ctypes.c_void_p(pointers[argument.name])
    return scalar(argument)


def _mapped(tensor_map: TensorMap, pointers: dict[str, int]) -> list[Any]:
    try:
        return parameters(pointers[tensor_map.of], **vars(tensor_map))
    except TensorMapError as error:
        raise LaunchError(str(error)) from None


def driver_installed() -> bool:
    """Return True if a CUDA driver is installed, without opening a device."""
    try:
        library()
    except OSError:
        return False
    return True


@lru_cache(maxsize=1)
def library() -> Any:
    """Return the CUDA driver library."""
    return ctypes.CDLL("libcuda.so.1")
