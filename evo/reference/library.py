"""Chooses the library of a ``reference.py``: NumPy, or CuPy if that saves minutes."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

import numpy as np

LARGE_FLOPS = 5e10
"""Number of operations that take several seconds on CPU cores."""


_ON_HOST = Event()


@contextmanager
def host_only() -> Iterator[None]:
    """Use only the CPU in the block, in all threads, because another process is measuring on the GPU."""
    _ON_HOST.set()
    try:
        yield
    finally:
        _ON_HOST.clear()


def array_library(flops: float, *, large: float = LARGE_FLOPS) -> Any:
    """Return the array module: ``cupy`` for `large` work if there is a GPU, else ``numpy``.

    Precision does not change: both compute in float64 if the caller does.

    Args:
        flops: floating-point operations of the whole computation.
        large: number of operations from which a GPU is used; use fewer if memory, not arithmetic, limits the speed.
    """
    if _ON_HOST.is_set() or flops < large:
        return np
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except Exception:  # noqa: BLE001 - no CuPy, no driver, no GPU: the cores do it
        return np
    return cupy
