"""Chooses the array library that a ``reference.py`` uses: NumPy or, for large computations, CuPy."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

LARGE_FLOPS = 5e10
"""Number of floating-point operations for which CPU cores need several seconds."""

LARGE_ELEMENTS = 1 << 25
"""Total number of array elements that CPU cores need a second or more to copy and round."""

_ONE_AT_A_TIME = threading.Lock()


@dataclass
class _Gpu:
    """The GPU of this process. `claims` are the functions that decide whether it may be used now."""

    index: int = 0
    claims: list[Callable[[], bool]] = field(default_factory=list)


_GPU = _Gpu()


class GpuNeededError(RuntimeError):
    """Raised if a computation needs the GPU, but this process must not use it now."""


def use_gpu(index: int) -> None:
    """Choose the GPU on which all threads of this process compute from now on. The default is GPU 0."""
    _GPU.index = index


def gpu_index() -> int:
    """Return the index of the GPU on which this process computes."""
    return _GPU.index


@contextmanager
def gpu_if(claimed: Callable[[], bool]) -> Iterator[None]:
    """Context manager in which large computations of all threads use the GPU only if `claimed` permits it.

    It is used while a different process may be measuring on the GPU. On the CPU, the computations would take minutes;
    the caller repeats them when this process may use the GPU.

    Args:
        claimed: thread-safe function that returns True if this process may use the GPU until the block ends. If it
            returns False, the computation raises GpuNeededError.
    """
    _GPU.claims.append(claimed)
    try:
        yield
    finally:
        _GPU.claims.remove(claimed)


def array_library(flops: float, *, large: float = LARGE_FLOPS, elements: int = 0) -> Any:
    """Return the array module: ``cupy`` if the work is large and there is a GPU, else ``numpy``.

    The choice does not affect the precision: both modules compute in the dtypes of the caller's arrays.

    Args:
        flops: number of floating-point operations of the whole computation.
        large: number of operations from which the work counts as large. Choose a smaller number if memory limits the
            speed.
        elements: number of elements of all arrays. With `LARGE_ELEMENTS` or more, the work is large for any `flops`.

    Raises:
        GpuNeededError: the work is large, there is a GPU, and `gpu_if` does not allow this process to use it.
    """
    if flops < large and elements < LARGE_ELEMENTS:
        return np
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except Exception:  # noqa: BLE001 - without CuPy, driver or GPU, the CPU computes
        return np
    require_gpu()
    return cupy


def require_gpu() -> None:
    """Raise GpuNeededError if `gpu_if` does not allow this process to use the GPU."""
    if not all(claimed() for claimed in list(_GPU.claims)):
        raise GpuNeededError("expected outputs need the GPU, which another process may be using; compute them later")


@contextmanager
def computing(flops: float, *, large: float = LARGE_FLOPS, elements: int = 0) -> Iterator[Any]:
    """Context manager that provides the module of `array_library`. Only one thread at a time gets CuPy.

    Expected outputs are computed by several threads, which together would need too much GPU memory. After the block,
    the memory that CuPy has allocated is freed.

    Raises:
        GpuNeededError: see `array_library`.
    """
    library = array_library(flops, large=large, elements=elements)
    if library is np:
        yield np
        return
    with _ONE_AT_A_TIME, library.cuda.Device(_GPU.index):
        try:
            yield library
        finally:
            library.get_default_memory_pool().free_all_blocks()
