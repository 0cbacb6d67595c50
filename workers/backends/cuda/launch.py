"""Launches kernels through the driver, which supports programmatic dependent launch, and translates its errors."""

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from evo.export.loader.tensor_map import TensorMapError, encode
from evo.family import TensorMap
from workers.backends import DeviceLostError, LaunchError
from workers.build import Launch
from workers.build.kernel import Argument

OUT_OF_MEMORY = 2
STICKY = frozenset({214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999})
"""Errors after which the context is dead: illegal address, misaligned access, launch failure, time-out, ECC …"""

_PROGRAMMATIC_STREAM_SERIALIZATION = 6
_SHARED_SIZE_BYTES = 1
"""CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES."""

_SCALARS: dict[str, type[Any]] = {
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
}


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute: an id and a union of 64 bytes."""

    _fields_ = (
        ("id", ctypes.c_int),
        ("padding", ctypes.c_char * 4),
        ("value", ctypes.c_int),
        ("rest", ctypes.c_char * 60),
    )


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_memory_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("attribute_count", ctypes.c_uint),
    )


class BoundKernel:
    """A function with its launch and arguments, ready to be started on a stream.

    Args:
        function: CUfunction.
        pointers: device addresses by argument name; scalars carry their own value.

    Raises:
        LaunchError: an argument cannot be passed, or has no tensor map.
    """

    def __init__(
        self, function: int, launch: Launch, arguments: Sequence[Argument], pointers: dict[str, int], stream: int
    ) -> None:
        self._function = ctypes.c_void_p(function)
        self._values = [_value(argument, pointers) for argument in arguments]
        self._values += [_encoded(each, pointers) for each in launch.tensor_maps]
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
        status = library().cuLaunchKernelEx(ctypes.byref(self._config), self._function, self._parameters, None)
        if status:
            raise translated(status, error_name(status))


def translated(status: int, text: str) -> Exception:
    """Return the exception for a CUDA error."""
    if status == OUT_OF_MEMORY:
        return MemoryError(text)
    return (DeviceLostError if status in STICKY else LaunchError)(text)


@contextmanager
def cuda_errors() -> Iterator[None]:
    """Raise CuPy's errors as those of `workers.backends`."""
    try:
        yield
    except RuntimeError as error:
        status = getattr(error, "status", None)
        if not isinstance(status, int):
            raise
        raise translated(status, str(error)) from None


def error_name(status: int) -> str:
    """E.g. ``CUDA_ERROR_ILLEGAL_ADDRESS``."""
    name = ctypes.c_char_p()
    library().cuGetErrorName(status, ctypes.byref(name))
    return name.value.decode() if name.value else f"CUDA error {status}"


def static_shared_bytes(function: int) -> int:
    """Return the static shared memory of a loaded kernel, in bytes."""
    size = ctypes.c_int()
    status = library().cuFuncGetAttribute(ctypes.byref(size), _SHARED_SIZE_BYTES, ctypes.c_void_p(function))
    if status:
        raise translated(status, error_name(status))
    return size.value


def _value(argument: Argument, pointers: dict[str, int]) -> Any:
    if argument.role != "scalar":
        return ctypes.c_void_p(pointers[argument.name])
    if argument.dtype not in _SCALARS:
        raise LaunchError(f"scalar `{argument.name}`: {argument.dtype} cannot be passed; use {', '.join(_SCALARS)}")
    return _SCALARS[argument.dtype](argument.value)


def _encoded(tensor_map: TensorMap, pointers: dict[str, int]) -> Any:
    try:
        return encode(pointers[tensor_map.of], **vars(tensor_map))
    except TensorMapError as error:
        raise LaunchError(str(error)) from None


def driver_installed() -> bool:
    """Return True if a driver is installed; opens no device."""
    try:
        library()
    except OSError:
        return False
    return True


@lru_cache(maxsize=1)
def library() -> Any:
    """Return the driver's interface."""
    return ctypes.CDLL("libcuda.so.1")
