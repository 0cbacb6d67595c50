"""A machine whose disk is full, or takes no files or programs: no candidate's fault, and no family's."""

import errno
import os
from pathlib import Path

from evo.errors import EvoError

_NUMBERS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class MachineExhausted(EvoError, OSError):
    """Nothing can be built or judged on this machine until its disk is put right; the work is for another one."""


def is_exhaustion(error: BaseException) -> bool:
    """True where an error means that the disk is full, over a quota, or read-only."""
    return isinstance(error, MachineExhausted) or (isinstance(error, OSError) and error.errno in _NUMBERS)


def refuse_exhaustion(said: str) -> None:
    """Look into what a program said as it failed, in the C locale.

    Raises:
        MachineExhausted: its disk is why.
    """
    for number in _NUMBERS:
        for line in said.splitlines():
            if os.strerror(number).lower() in line.lower():
                raise MachineExhausted(f"this machine cannot build anything, make room first: {line.strip()[:300]}")


def refuse_noexec(folder: Path) -> None:
    """Raises:
    MachineExhausted: the folder's file system is mounted so that nothing in it can be executed.
    """
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        raise MachineExhausted(
            f"{folder} lies on a file system mounted with `noexec`, where no compiled kernel can be loaded: set TMPDIR "
            "to a folder of another file system"
        )
