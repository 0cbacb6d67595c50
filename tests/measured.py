"""What the program measures of this machine: once for all tests of an hour, and not in each test's own cache folder."""

import fcntl
import shutil
from functools import cache
from pathlib import Path

from tests.builds import ROOT
from workers.backends import driver

_FOLDER = ROOT / "build" / "tests" / "machine"


def measured(folder: Path) -> Path:
    """Put the ceilings of this machine's CPU into a cache folder, and return the folder.

    To measure them takes four seconds of processor time. `test_cpu_device.py` tests how that is done.
    """
    if (found := _measured()) is not None:
        shutil.copytree(found, folder, dirs_exist_ok=True)
    return folder


@cache
def _measured() -> Path | None:
    """Return a folder with the ceilings, which no later test writes to; None if there is no compiler."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with (_FOLDER.parent / "machine.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _FOLDER if driver("cpu").discover(_FOLDER) else None
