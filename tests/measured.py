"""Peak rates of this machine, measured once an hour and copied to the cache folders of tests."""

import fcntl
import shutil
from functools import cache
from pathlib import Path

from tests.builds import ROOT
from workers.backends import driver

_FOLDER = ROOT / "build" / "tests" / "machine"


def measured(folder: Path) -> Path:
    """Copy the measured peak rates of this machine's CPU to a cache folder, and return the folder.

    Measuring them takes four seconds of processor time. `test_cpu_device.py` tests the measurement.
    """
    if (found := _measured()) is not None:
        shutil.copytree(found, folder, dirs_exist_ok=True)
    return folder


@cache
def _measured() -> Path | None:
    """Return a folder with the measured peak rates; None without a compiler. No test writes to the folder."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with (_FOLDER.parent / "machine.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _FOLDER if driver("cpu").discover(_FOLDER) else None
