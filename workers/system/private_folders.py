"""Checks whether all users, and the processes that run candidates on a CPU, may enter a folder."""

import os
import re
import stat
from pathlib import Path

from evo.device.separation import level

_DAC_READ_SEARCH, _SETPCAP = 1 << 2, 1 << 8
_BOUNDING = re.compile(r"^CapBnd:\s*([0-9a-f]+)$", re.MULTILINE)


def all_may_enter(folder: Path) -> bool:
    """Return True if all users may enter the folder, and False if it does not exist. Parent folders are not checked."""
    try:
        return bool(folder.stat().st_mode & stat.S_IXOTH)
    except OSError:
        return False


def kernels_may_enter(separation: str) -> bool:
    """Return True if kernel processes may enter all folders that this process may enter.

    If this process runs as root, kernel processes run as a different user. At the isolation level ``full``, they
    keep the capability to enter private folders, if the system grants it to the programs of root.

    Args:
        separation: isolation mechanisms of the kernel processes, as in `Device.software`.
    """
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return True
    return level(separation) == "full" and _bounding() & _DAC_READ_SEARCH > 0 and _bounding() & _SETPCAP > 0


def _bounding() -> int:
    """Return the bit mask of the capabilities that programs of root get, or 0 if unknown."""
    try:
        found = _BOUNDING.search(Path("/proc/self/status").read_text())
    except OSError:
        return 0
    return int(found[1], 16) if found else 0
