"""Detects a disk that is full, read-only or mounted ``noexec``, which is not a fault of a candidate or a family."""

import errno
import os
from pathlib import Path

from evo.errors import EvoError

_REMEDIES = {
    errno.ENOSPC: "free disk space",
    errno.EDQUOT: "free disk space, or raise the disk quota",
    errno.EROFS: "make the file system writable",
}
"""Remedy for each error number that counts as exhaustion."""


class MachineExhausted(EvoError, OSError):
    """Raised if this machine cannot build or measure because its disk is full, read-only or mounted ``noexec``."""


def is_exhaustion(error: BaseException) -> bool:
    """Return True if an error means that the disk is full, over a quota, read-only or mounted ``noexec``."""
    return isinstance(error, MachineExhausted) or (isinstance(error, OSError) and error.errno in _REMEDIES)


def with_remedy(error: BaseException, text: str) -> str:
    """Return `text`, preceded by the remedy if `error` means that the disk is full, over a quota, or read-only."""
    remedy = _REMEDIES.get(error.errno or 0) if isinstance(error, OSError) else None
    return text if remedy is None else f"{remedy}: {text}"


def refuse_exhaustion(said: str) -> None:
    """Check the output of a failed program for signs of a full or read-only disk. The program must use the C locale.

    Raises:
        MachineExhausted: the output shows that the disk is full, over a quota, or read-only.
    """
    for number, remedy in _REMEDIES.items():
        for line in said.splitlines():
            if os.strerror(number).lower() in line.lower():
                raise MachineExhausted(f"this machine cannot write build results; {remedy}: {line.strip()[:300]}")


def refuse_noexec(folder: Path) -> None:
    """Check that files in a folder can be executed.

    Raises:
        MachineExhausted: the file system of the folder is mounted noexec.
    """
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        raise MachineExhausted(
            f"{folder} is on a file system that is mounted `noexec`, so compiled kernels cannot be loaded from it; set "
            "TMPDIR to a folder on another file system"
        )
