"""Chooses the library of a ``reference.py``: NumPy, or CuPy if that saves minutes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

LARGE_FLOPS = 5e10
"""Number of operations that take several seconds on CPU cores."""

LARGE_ELEMENTS = 1 << 25
"""Number of elements of all arrays from which copying and rounding takes a second or more on CPU cores."""

_WITHOUT_GPU = threading.Event()
_ONE_AT_A_TIME = threading.Lock()


class GpuNeededError(RuntimeError):
    """The computation is for a GPU, which this process must leave alone for now."""


@contextmanager
def without_gpu() -> Iterator[None]:
    """Refuse computations for a GPU in the block, in all threads, because another process may be measuring on it.

    On the CPU they would take minutes; this process computes them when the GPU is its own.
    """
    _WITHOUT_GPU.set()
    try:
        yield
    finally:
        _WITHOUT_GPU.clear()


def array_library(flops: float, *, large: float = LARGE_FLOPS, elements: int = 0) -> Any:
    """Return the array module: ``cupy`` for `large` work if there is a GPU, else ``numpy``.

    Precision does not change: both compute in float64 if the caller does.

    Args:
        flops: floating-point operations of the whole computation.
        large: number of operations from which a GPU is used; use fewer if memory, not arithmetic, limits the speed.
        elements: elements of all arrays; from `LARGE_ELEMENTS` on, the work is large whatever its operations.

    Raises:
        GpuNeededError: the work is large, there is a GPU, and `without_gpu` holds.
    """
    if flops < large and elements < LARGE_ELEMENTS:
        return np
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except Exception:  # noqa: BLE001 - no CuPy, no driver, no GPU: the cores do it
        return np
    require_gpu()
    return cupy


def require_gpu() -> None:
    """Raise GpuNeededError if this process must not use the GPU now; see `without_gpu`."""
    if _WITHOUT_GPU.is_set():
        raise GpuNeededError("a reference is computed on the GPU, which another process may be using")


@contextmanager
def computing(flops: float, *, large: float = LARGE_FLOPS, elements: int = 0) -> Iterator[Any]:
    """Provide what `array_library` returns, for one thread at a time if it is CuPy.

    Several threads compute references at once; together they would need too much of the GPU's memory. What CuPy has
    allocated is free again after the block.

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
