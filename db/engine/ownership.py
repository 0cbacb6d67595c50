"""Ensures that only one process serves an SQLite database, and publishes the address of this process in a file."""

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
from evo.text.shell import with_home

LOCKS_FILES = sys.platform == "linux"
"""True on systems where a lock on a whole file is independent of SQLite's locks on byte ranges."""

USED = b"used\n"
"""Content of the lock file once a service has opened the database."""

TIMEOUT_S = 1.0
"""Seconds to wait for the lock. Processes that check for a running service also hold the lock, but only briefly."""


@dataclass(frozen=True, kw_only=True)
class Announcement:
    """Address and process id of the service that owns a database. `url` is None until the service listens."""

    url: str | None
    pid: int


class Ownership:
    """Exclusive right to serve one database. The operating system releases the right when the process ends.

    The right consists of two locks. The lock file next to the database can be locked before the database exists. The
    lock on the database file itself detects hard links. The same file must not be served under two names, because each
    name would have a separate write-ahead log.
    """

    def __init__(self, database: Path, lock: IO[bytes]) -> None:
        self._database = database
        self._lock = lock
        self._file: IO[bytes] | None = None
        self._announced_at = _announcement_path(database)

    @classmethod
    def take(cls, database: Path) -> "Ownership":
        """Acquire the exclusive right to serve a database.

        Raises:
            Conflict: another process serves the database.
            StoreUnavailable: the lock file next to the database cannot be written, or the database lost its content.
        """
        database = _real(database)
        lock = _open_lock(database)
        deadline = time.monotonic() + TIMEOUT_S
        while not _try_lock(lock):
            if time.monotonic() > deadline:
                lock.close()
                raise Conflict(_refusal(database))
            time.sleep(0.02)
        ownership = cls(database, lock)
        try:
            ownership._refuse_emptied()
            ownership.hold_file()
            ownership.announce(None)
        except EvoError:
            ownership._close()
            raise
        return ownership

    def hold_file(self) -> None:
        """Lock the database file itself, if it exists.

        Raises:
            Conflict: a service already serves the same file under a different name (hard link).
        """
        if self._file is not None or not LOCKS_FILES or not self._database.is_file():
            return
        try:
            file = self._database.open("rb")
        except OSError:
            return  # the error is reported when the database is opened
        if not _try_lock(file):
            file.close()
            raise Conflict(
                f"a service already runs on the file of {self._database} under another name (a hard link); use that "
                "service or end it, or use another --db"
            )
        self._file = file

    def note_used(self) -> None:
        """Record in the lock file that the database has content."""
        with contextlib.suppress(OSError):  # the service must also start if the disk is full
            if not _is_used(self._lock):
                self._lock.write(USED)
                self._lock.flush()

    def _refuse_emptied(self) -> None:
        """Check that the file is not empty if it had content before. SQLite would make an empty file a new database.

        Raises:
            StoreUnavailable: the file has 0 bytes, but a service has used it.
        """
        if _is_used(self._lock) and self._database.is_file() and self._database.stat().st_size == 0:
            raise StoreUnavailable(
                f"database {self._database} is damaged: it has 0 bytes, but a service has stored data in it. Nothing "
                "was changed. Remedy: restore a backup, or remove the file to begin with an empty database"
            )

    def announce(self, url: str | None) -> None:
        """Publish the address to other processes, in a file that is replaced atomically.

        `url` is None until the service listens.
        """
        announcement = Announcement(url=url, pid=os.getpid())
        try:
            write_whole(self._announced_at, json.dumps(asdict(announcement)).encode())
        except OSError as error:
            raise _unwritable(self._announced_at, error) from error

    def release(self) -> None:
        """Remove the announcement and release the locks."""
        if not self._lock.closed:
            self._announced_at.unlink(missing_ok=True)
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._lock.close()


def _is_used(lock: IO[bytes]) -> bool:
    return os.fstat(lock.fileno()).st_size > 0


def running_service(database: Path) -> Announcement | None:
    """Return the service that owns this database now, or None. Files left by a killed service do not count."""
    database = _real(database)
    if not _lock_path(database).exists():
        return None
    with _open_lock(database) as lock:
        if _try_lock(lock):
            return None
    announcement = _read(database)
    if announcement is not None and not psutil.pid_exists(announcement.pid):
        # The previous owner wrote this file; the new owner has not replaced it yet.
        return Announcement(url=None, pid=announcement.pid)
    return announcement


def _real(database: Path) -> Path:
    """Return the path without symbolic links. SQLite keeps its write-ahead log next to the file at this path."""
    return with_home(database).absolute().resolve()


def _read(database: Path) -> Announcement | None:
    with contextlib.suppress(OSError, ValueError, TypeError):
        return Announcement(**json.loads(_announcement_path(database).read_text()))
    return None


def _refusal(database: Path) -> str:
    owner = _read(database)
    if owner is None or owner.url is None:
        who = "another service" if owner is None else f"another service (process {owner.pid}, still starting)"
        return f"{who} already runs on {database}; use it, end it, or use another --db"
    return (
        f"a service already runs on {database}: {owner.url} (process {owner.pid}); use it with --url, or end it. "
        "Only one process can serve an SQLite file; several processes need PostgreSQL (--db postgresql://…)"
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
    return StoreUnavailable(f"{reason}; free some space, make the folder writable, or use another --db")


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
