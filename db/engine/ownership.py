"""One service process for each database: a lock held for life, and an announcement of who holds it and where."""

import contextlib
import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import psutil

from db.engine.files import write_whole
from db.engine.unavailable import StoreUnavailable
from evo.errors import Conflict, EvoError

LOCKS_FILES = sys.platform == "linux"
"""Whether a lock on a whole file leaves SQLite's own locks on parts of it alone."""

PATIENCE_S = 1.0
"""How long taking a database waits: a process that only looks whether a service runs holds the lock for a moment."""


@dataclass(frozen=True, kw_only=True)
class Announcement:
    """Where the service that owns a database can be reached; None until it listens."""

    url: str | None
    pid: int


class Ownership:
    """The right to serve one database. The operating system ends it with the process, however that ends.

    Two locks are held: one beside the file, which is there before the file is, and one on the file itself, which under
    each of its names (hard links) has the same content, but another write-ahead log.
    """

    def __init__(self, database: Path, lock: IO[bytes]) -> None:
        self._database = database
        self._lock = lock
        self._file: IO[bytes] | None = None
        self._announced_at = _announcement_path(database)

    @classmethod
    def take(cls, database: Path) -> "Ownership":
        """Become the one service of this database.

        Raises:
            Conflict: another process is; the message says which, and its address.
            StoreUnavailable: the lock file beside the database cannot be written.
        """
        database = _real(database)
        lock = _open_lock(database)
        deadline = time.monotonic() + PATIENCE_S
        while not _try_lock(lock):
            if time.monotonic() > deadline:
                lock.close()
                raise Conflict(_taken(database))
            time.sleep(0.02)
        ownership = cls(database, lock)
        try:
            ownership.hold_file()
            ownership.announce(None)
        except EvoError:
            ownership._close()
            raise
        return ownership

    def hold_file(self) -> None:
        """Lock the file itself, once it is there.

        Raises:
            Conflict: a service runs on it under another name.
        """
        if self._file is not None or not LOCKS_FILES or not self._database.is_file():
            return
        try:
            file = self._database.open("rb")
        except OSError:
            return  # whoever opens the database says why
        if not _try_lock(file):
            file.close()
            raise Conflict(
                f"a service already runs on the file of {self._database} under another name (a hard link): use that "
                "service or end it, or use another --db"
            )
        self._file = file

    def announce(self, url: str | None) -> None:
        """Tell other processes the address; they see the old announcement or the new one, never half of it."""
        announcement = Announcement(url=url, pid=os.getpid())
        try:
            write_whole(self._announced_at, json.dumps(asdict(announcement)).encode())
        except OSError as error:
            raise _unwritable(self._announced_at, error) from error

    def release(self) -> None:
        """Withdraw the announcement and let another process take the database."""
        if not self._lock.closed:
            self._announced_at.unlink(missing_ok=True)
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._lock.close()


def running_service(database: Path) -> Announcement | None:
    """The service that owns this database now, or None. What a killed one left behind does not count."""
    database = _real(database)
    if not _lock_path(database).exists():
        return None
    with _open_lock(database) as lock:
        if _try_lock(lock):
            return None
    announcement = _read(database)
    if announcement is not None and not psutil.pid_exists(announcement.pid):
        return Announcement(url=None, pid=announcement.pid)  # of the owner before; the present one is about to write
    return announcement


def _real(database: Path) -> Path:
    """Return the file that a path leads to: SQLite keeps its log beside that, whatever links there are."""
    return database.expanduser().absolute().resolve()


def _read(database: Path) -> Announcement | None:
    with contextlib.suppress(OSError, ValueError, TypeError):
        return Announcement(**json.loads(_announcement_path(database).read_text()))
    return None


def _taken(database: Path) -> str:
    owner = _read(database)
    if owner is None or owner.url is None:
        who = "another service" if owner is None else f"another service (process {owner.pid}, still starting)"
        return f"{who} already runs on {database}: use it, end it, or use another --db"
    return (
        f"a service already runs on {database}: {owner.url} (process {owner.pid}); use it with --url, or end it. "
        "SQLite serves one process; several need PostgreSQL (--db postgresql://…)"
    )


def _announcement_path(database: Path) -> Path:
    return database.with_name(f"{database.name}.service.json")


def _lock_path(database: Path) -> Path:
    return database.with_name(f"{database.name}.lock")


def _open_lock(database: Path) -> IO[bytes]:
    try:
        database.parent.mkdir(parents=True, exist_ok=True)
        return _lock_path(database).open("ab")
    except OSError as error:
        raise _unwritable(_lock_path(database), error) from error


def _unwritable(path: Path, error: OSError) -> StoreUnavailable:
    reason = f"{path} is not writable ({error.strerror or error})"
    return StoreUnavailable(f"{reason}: make room or give the right to write there, or use another --db")


if sys.platform == "win32":
    import msvcrt

    def _try_lock(lock: IO[bytes]) -> bool:
        try:
            msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(lock: IO[bytes]) -> bool:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
