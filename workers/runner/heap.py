"""Keeps the memory of freed arrays in a runner, so that later arrays reuse it.

By default, the C library returns the memory of large arrays to the system when they are freed. The system clears the
memory of each new array, and each first access to a page takes a page fault. For the temporary arrays of reference.py,
this takes about as long as the computations.
"""

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8
"""Parameters of ``mallopt``, as defined in ``malloc.h`` of glibc: size of free memory at the end of the heap that is
returned to the system, maximum number of blocks that are allocated outside the heap, and maximum number of heaps."""

_MOST_KEPT_BYTES = (1 << 31) - 1
"""Maximum size of free memory at the end of the heap: the largest value that ``mallopt`` accepts."""


def keep_freed_memory() -> None:
    """Keep freed memory in this process, in one heap for all threads. Do nothing if the C library is not glibc."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(_MMAP_MAX, 0)
        libc.mallopt(_TRIM_THRESHOLD, _MOST_KEPT_BYTES)
        libc.mallopt(_ARENA_MAX, 1)


def return_freed_memory() -> None:
    """Return all freed memory to the system. Do nothing if the C library is not glibc."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)
