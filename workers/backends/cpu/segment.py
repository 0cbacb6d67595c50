"""Memory that runners share with kernel processes: anonymous files that contain several arrays."""

import mmap
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evo.reference.pieces import on_all_cores

PAGE_BYTES = 4096
_FIRST_BYTES = PAGE_BYTES
_NUMBERS = count()


@dataclass(frozen=True, kw_only=True)
class Region:
    """Range of a segment for one array and the guard bands around it.

    Attributes:
        start: offset in the segment in bytes, a multiple of the page size.
        bytes: size in bytes, at least two pages more than the size of the array.
    """

    start: int
    bytes: int


class Segment:
    """An anonymous file that is mapped into this process and into kernel processes.

    Each array has its own range of the file (`Region`), with space for its guard bands. One page separates neighbouring
    regions.

    Args:
        sizes: size of each array in bytes.
        writable: True if kernel processes may write to the segment.

    Attributes:
        number: number of the segment, unique in this process.
        size: total size in bytes.
        regions: range of each array, in the order of `sizes`.
        guard_pages: offsets of the separating pages that kernel processes cannot access. At first, these are all
            separating pages. A caller may clear the list before a kernel process maps the segment.
    """

    def __init__(self, sizes: Iterable[int], *, writable: bool) -> None:
        self.number = next(_NUMBERS)
        self.writable = writable
        self.regions, self.guard_pages, end = [], [], 0
        for size in sizes:
            if end:
                self.guard_pages.append(end)
                end += PAGE_BYTES
            region = Region(start=end, bytes=2 * _FIRST_BYTES + -(-size // PAGE_BYTES) * PAGE_BYTES)
            self.regions.append(region)
            end += region.bytes
        self.size = max(end, PAGE_BYTES)
        self._file = _unnamed_file()
        try:
            os.ftruncate(self._file, self.size)
            self._memory = mmap.mmap(self._file, self.size)
        except (OSError, ValueError) as error:
            os.close(self._file)
            raise MemoryError(f"{self.size} bytes of shared memory cannot be allocated: {error}") from None

    def __del__(self) -> None:
        if (file := getattr(self, "_file", None)) is not None:
            os.close(file)

    def bytes_of(self, region: Region) -> NDArray[np.uint8]:
        """Return a view of all bytes of a region, shape (region.bytes,)."""
        return np.frombuffer(self._memory, np.uint8, region.bytes, region.start)

    def repeat(self, period: int) -> None:
        """Copy the first `period` bytes to all later parts of the segment.

        The copies are made by system calls, because writing to mapped memory causes a page fault for each new page,
        which takes twice as long.

        Raises:
            MemoryError: the memory cannot be allocated.
        """
        pattern = memoryview(self._memory)[:period]

        def copy(start: int) -> None:
            wanted, written = min(period, self.size - start), 0
            while written < wanted:
                written += os.pwrite(self._file, pattern[written:wanted], start + written)

        try:
            on_all_cores(copy, range(period, self.size, period))
        except OSError as error:
            raise MemoryError(f"{self.size} bytes of shared memory cannot be allocated: {error}") from None

    def descriptor(self) -> int:
        """Return a new file descriptor of the segment, which the caller must close.

        On systems with ``/proc``, the descriptor is read-only if kernel processes may not write to the segment.
        """
        if not self.writable and Path("/proc/self/fd").is_dir():
            return os.open(f"/proc/self/fd/{self._file}", os.O_RDONLY | os.O_CLOEXEC)
        return os.dup(self._file)


def _unnamed_file() -> int:
    if not hasattr(os, "memfd_create"):
        with tempfile.TemporaryFile(buffering=0) as file:
            return os.dup(file.fileno())
    descriptor = os.memfd_create("memory", os.MFD_CLOEXEC)
    os.fchmod(descriptor, 0o600)  # kernel processes, which run as other users, cannot reopen the file for writing
    return descriptor
