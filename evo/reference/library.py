"""Choose the library of a ``reference.py``: NumPy, or CuPy where that saves minutes."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

import numpy as np

LARGE_FLOPS = 5e10
"""Number of operations that take CPU cores more than some seconds."""


_ON_HOST = Event()


@contextmanager
def host_only() -> Iterator[None]:
    """Compute on the cores in the block, in all threads: another process is measuring on the GPU."""
    _ON_HOST.set()
    try:
        yield
    finally:
        _ON_HOST.clear()


def array_library(flops: float, *, large: float = LARGE_FLOPS) -> Any:
    """Return the array module: ``cupy`` for `large` work if there is a GPU, else ``numpy``.

    Precision is the caller's: both compute in float64 what is asked of them in float64.

    Args:
        flops: floating-point operations of the whole computation.
        large: from so many on a GPU is asked; fewer where memory, not arithmetic, takes the time.
    """
    if _ON_HOST.is_set() or flops < large:
        return np
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except Exception:  # noqa: BLE001 - no CuPy, no driver, no GPU: the cores do it
        return np
    return cupy
