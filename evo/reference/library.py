"""Chooses the library of a ``reference.py``: NumPy, or CuPy if it saves minutes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

LARGE_FLOPS = 5e10
"""Number of operations for which CPU cores need several seconds."""

LARGE_ELEMENTS = 1 << 25
"""Number of elements of all arrays for whose copying and rounding CPU cores need a second or more."""

_WITHOUT_GPU = threading.Event()
_ONE_AT_A_TIME = threading.Lock()


class GpuNeededError(RuntimeError):
    """The computation needs a GPU that this process must not use at present."""


@contextmanager
def without_gpu() -> Iterator[None]:
    """Refuse computations on a GPU within the block, in all threads.

    Another process may be measuring on the GPU. On the CPU, the computations would take minutes. They run later, when
    this process has the GPU.
    """
    _WITHOUT_GPU.set()
    try:
        yield
    finally:
        _WITHOUT_GPU.clear()


def array_library(flops: float, *, large: float = LARGE_FLOPS, elements: int = 0) -> Any:
    """Return the array module: ``cupy`` if the work is large and there is a GPU, else ``numpy``.

    The precision is the same: both compute in float64 if the caller does.

    Args:
        flops: number of floating-point operations of the whole computation.
        large: number of operations above which the work is large. Choose a smaller number if memory limits the speed.
        elements: number of elements of all arrays. From `LARGE_ELEMENTS` on, the work is large, whatever `flops` is.

    Raises:
        GpuNeededError: the work is large, there is a GPU, and the call is within `without_gpu`.
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
    """Raise GpuNeededError if the call is within `without_gpu`."""
    if _WITHOUT_GPU.is_set():
        raise GpuNeededError("a reference is computed on the GPU, which another process may be using")


@contextmanager
def computing(flops: float, *, large: float = LARGE_FLOPS, elements: int = 0) -> Iterator[Any]:
    """Provide the module that `array_library` returns; only one thread at a time gets CuPy.

    Several threads compute references at once and would together need too much GPU memory. After the block, the memory
    that CuPy has allocated is freed.

    Raises:
        GpuNeededError: see `array_library`.
    """
    library = array_library(flops, large=large, elements=elements)
    if library is np:
        yield np
        return
    with _ONE_AT_A_TIME:
        try:
            yield library
        finally:
            library.get_default_memory_pool().free_all_blocks()
