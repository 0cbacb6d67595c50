"""File lock that allows one worker per database on this machine."""

import fcntl
from pathlib import Path
from typing import IO

from evo.errors import EvoError


class WorkerLock:
    """Lock by which only one of several terminals on a database runs a worker, so that measurements are undisturbed.

    Args:
        folder: the worker's folder, which contains the lock.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock: IO[bytes] | None = None

    def acquire(self) -> bool:
        """Take the lock; return False while another process holds it.

        Raises:
            EvoError: the folder cannot be written.
        """
        if self._lock is not None:
            return True
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            lock = (self._folder / "lock").open("ab")
        except OSError as error:
            raise EvoError(f"{self._folder} is not writable ({error.strerror}): use another --db") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return False
        self._lock = lock
        return True

    def release(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
