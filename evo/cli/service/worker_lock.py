"""The post of the one worker that a database's commands keep on this machine: held by a lock, left with the process."""

import fcntl
from pathlib import Path
from typing import IO

from evo.errors import EvoError


class Post:
    """Several terminals may search on one database; one of them runs the worker, so that nobody disturbs measuring.

    Args:
        folder: of the worker; the lock lies in it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock: IO[bytes] | None = None

    def take(self) -> bool:
        """Hold the post from now on; False while another process does.

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

    def leave(self) -> None:
        """Let another process take it."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
