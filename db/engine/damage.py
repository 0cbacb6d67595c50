"""Detects damage that SQLite ignores: a truncated database file, and a truncated or incomplete write-ahead log.

SQLite removes the log of a database file that has 0 bytes. It reads a log up to the first frame with a wrong checksum,
and ignores all later frames, because a crash may have left a transaction incomplete. If the later frames contain
complete transactions, these were committed, and SQLite would lose them. The file formats are described in
https://www.sqlite.org/fileformat2.html.
"""

import os
import struct
import threading
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

DATABASE_HEADER, LOG_HEADER, FRAME_HEADER = 100, 32, 24
INDEX_HEADER = 48
"""Size in bytes of the header of a log's index. The header is followed by a copy of itself, and by data about
checkpoints."""
INDEX_BYTES = 2 * INDEX_HEADER + 36
MAGIC = 0x377F0682
"""First word of a log. Its lowest bit is set if checksums are computed over big-endian words."""
AT_ONCE = 1024
"""Number of frames whose checksums are computed together."""
SECOND_LOOK_S = 0.2
"""Seconds before a second check for damage. During the first check, another program may have been writing to the
file."""

Sums = NDArray[np.uint32]


@dataclass(frozen=True, kw_only=True)
class Log:
    """Contents of a write-ahead log, verified by its checksums.

    Attributes:
        frames: number of frames of this log. The file may contain more frames, left over from an earlier log.
        read: number of frames that SQLite will read.
        lost: number of committed transactions that SQLite will ignore, because they follow the frames that it reads.
        pages: page numbers in the committed transactions that SQLite will read.
        pages_after: size of the database in pages after the last transaction that SQLite will read. None if there is no
            such transaction.
    """

    frames: int = 0
    read: int = 0
    lost: int = 0
    pages: frozenset[int] = frozenset()
    pages_after: int | None = None


class LockedFiles:
    """Reads files that SQLite locks, and keeps them open.

    If a process closes any descriptor of a file, the system releases all locks of the process on this file (POSIX),
    including those of SQLite's connections. Another process could then truncate the index of the log.
    """

    def __init__(self) -> None:
        self._descriptors: dict[Path, int] = {}
        self._lock = threading.Lock()

    def read(self, path: Path, count: int) -> bytes:
        """Return the first `count` bytes of a file, or the whole file if it is shorter.

        Raises:
            OSError: the file is missing or cannot be read.
        """
        with self._lock:
            descriptor = self._descriptors.get(path)
            if descriptor is None or not os.path.samestat(os.fstat(descriptor), path.stat()):
                if descriptor is not None:
                    os.close(self._descriptors.pop(path))  # the open descriptor refers to a removed file
                descriptor = self._descriptors[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(descriptor, count, 0)

    def close(self) -> None:
        """Close the files. Close all connections to the database first."""
        with self._lock:
            while self._descriptors:
                os.close(self._descriptors.popitem()[1])


@dataclass(frozen=True)
class Loss:
    """Loss of files or contents of an open database.

    Attributes:
        how: description of the loss.
        remedy: instructions to save the remaining data.
    """

    how: str
    remedy: str


class FileCut(Loss):
    """Loss of data because the database file was truncated."""


RESTORE = "end the service, restore a backup, and start it again"
_RESTART = "end the service, which then writes the data in its write-ahead log to the database file, and start it again"

FILE_REMOVED = Loss(
    "its file was removed or replaced",
    "end the service, move the file back to its place or restore a backup, and start the service again",
)
FILE_OVERWRITTEN = Loss(
    "another program wrote to its file",
    "end the service, restore a backup (not needed if only the time of the file was changed), and start it again",
)
LOG_REMOVED = Loss("its write-ahead log was removed", _RESTART)
LOG_REPLACED = Loss("its write-ahead log was replaced", _RESTART)


def damage(database: Path, files: LockedFiles) -> str | None:
    """Return a description of the damage to a database file and its write-ahead log, or None if they are intact."""
    found = _damage(database, files)
    if found is not None:
        time.sleep(SECOND_LOOK_S)
        found = _damage(database, files)
    return found


@dataclass(frozen=True, kw_only=True)
class Index:
    """Index of a write-ahead log, which SQLite keeps in a file next to the log while the database is open.

    Attributes:
        frames: number of frames that were written to the log.
        copied: number of these frames that were written back to the database file.
        attempted: number of frames that the last checkpoint tried to write back. Differs from `copied` during a
            checkpoint, and after a failed one.
        page_bytes: size of a page in bytes.
        salts: the salts of the log's header.
    """

    frames: int
    copied: int
    attempted: int
    page_bytes: int
    salts: bytes

    @property
    def log_bytes(self) -> int:
        """Minimum size in bytes of a log that contains all frames of the index. 0 if the index lists no frame."""
        return LOG_HEADER + self.frames * (FRAME_HEADER + self.page_bytes) if self.frames else 0


def read_index(database: Path, files: LockedFiles) -> Index | None:
    """Read the index of a write-ahead log. Return None if it is missing or damaged, or changes while it is read."""
    try:
        content = files.read(_index_path(database), INDEX_BYTES)
    except OSError:
        return None
    header = content[:INDEX_HEADER]
    if len(content) < INDEX_BYTES or header != content[INDEX_HEADER : 2 * INDEX_HEADER] or not header[12]:
        return None
    page_bytes, frames = struct.unpack("=HI", header[14:20])
    copied, attempted = struct.unpack("=I28xI", content[2 * INDEX_HEADER :])
    page_bytes = 65536 if page_bytes == 1 else page_bytes
    return Index(frames=frames, copied=copied, attempted=attempted, page_bytes=page_bytes, salts=header[32:40])


@dataclass(frozen=True, kw_only=True)
class Written:
    """State of an open database file between two checkpoints. SQLite writes to the file only during checkpoints.

    Attributes:
        salts: the salts of the log, which change when SQLite starts to fill the log from its beginning.
        copied: number of frames of the log that were written back.
        changed_ns, size: time of the last change of the file in ns, and size of the file in bytes.
    """

    salts: bytes
    copied: int
    changed_ns: int
    size: int

    def overwritten(self, later: "Written") -> bool:
        """Return True if the file changed between two states although no checkpoint ran."""
        unchanged = (later.salts, later.copied) == (self.salts, self.copied)
        return unchanged and (later.changed_ns, later.size) != (self.changed_ns, self.size)


def written(database: Path, index: Index | None, files: LockedFiles) -> Written | None:
    """Return the state of an open database file.

    Return None if the log has no index or is empty, if the database file is missing, or if a checkpoint may be running.

    Args:
        index: the index of the log; None if there is none. The index is read a second time, because a checkpoint may
            have begun since the first read.
    """
    if index is None or not index.frames or index.copied != index.attempted:
        return None
    try:
        status = database.stat()
    except OSError:
        return None
    later = read_index(database, files)
    if later is None or (later.salts, later.attempted) != (index.salts, index.attempted):
        return None
    return Written(salts=index.salts, copied=index.copied, changed_ns=status.st_mtime_ns, size=status.st_size)


def lost_frames(database: Path, index: Index | None, files: LockedFiles) -> Loss | None:
    """Return the loss if the write-ahead log of an open database lacks frames that its index lists, else None."""
    path = _log_path(database)
    if index is None:
        return None
    try:
        with path.open("rb") as log:
            header, size = log.read(LOG_HEADER), path.stat().st_size
    except OSError:
        return LOG_REMOVED
    if size >= index.log_bytes and (not index.frames or header[16:24] == index.salts):
        return None
    if read_index(database, files) != index:  # another process has changed the log in the meantime
        return None
    how = "overwritten" if size >= index.log_bytes else f"cut to {size} bytes"
    return Loss(f"its write-ahead log was {how}", RESTORE)


def _damage(database: Path, files: LockedFiles) -> str | None:
    path = _log_path(database)
    content = path.read_bytes() if path.exists() else None
    size = database.stat().st_size
    if content is None:
        return None if size < DATABASE_HEADER else _truncation(database, Log(), files)
    if size < DATABASE_HEADER:
        return f"it has {size} bytes, but its write-ahead log {path.name} exists"
    if (cut := _cut_log(database, content, files)) is not None:
        return cut
    log = read_log(content)
    if log is None:
        return f"the header of its write-ahead log {path.name} is damaged, so nothing in that log can be read"
    if log.lost:
        later = f"{log.lost} later committed transaction{'s' if log.lost > 1 else ''} cannot be read"
        return f"its write-ahead log {path.name} is damaged at frame {log.read + 1} of {log.frames}, and {later}"
    return _truncation(database, log, files)


def _cut_log(database: Path, content: bytes, files: LockedFiles) -> str | None:
    """Return a description of the loss if the log lacks frames that its index lists, else None.

    SQLite deletes the index when it closes the database, so a killed service leaves the index behind. An index that was
    written before the machine started is ignored, because it may be outdated after a power failure.
    """
    index = read_index(database, files)
    if index is None or index.copied >= index.frames or len(content) >= index.log_bytes:
        return None
    if len(content) >= LOG_HEADER and content[16:24] != index.salts:
        return None  # the log was restored from a backup
    if _index_path(database).stat().st_mtime < psutil.boot_time():
        return None
    return f"its write-ahead log {_log_path(database).name} was cut to {len(content)} of {index.log_bytes} bytes"


def _log_path(database: Path) -> Path:
    return database.with_name(f"{database.name}-wal")


def _index_path(database: Path) -> Path:
    return database.with_name(f"{database.name}-shm")


def _truncation(database: Path, log: Log, files: LockedFiles) -> str | None:
    """Return a description of the damage if the database file is truncated, else None.

    The file is truncated if a page of the database is neither in the file nor in the log.
    """
    size = database.stat().st_size
    header = files.read(database, DATABASE_HEADER)
    if not header.startswith(b"SQLite format 3\0"):
        return None  # SQLite reports this fault
    page_bytes = struct.unpack(">H", header[16:18])[0]
    page_bytes = 65536 if page_bytes == 1 else page_bytes
    pages, changes, valid_for = struct.unpack(">I", header[28:32])[0], header[24:28], header[92:96]
    expected = log.pages_after if log.pages_after is not None else pages if changes == valid_for else None
    if page_bytes < 512 or expected is None:
        return None
    whole = size // page_bytes
    missing = [number for number in range(whole + 1, expected + 1) if number not in log.pages]
    if not missing:
        return None
    return f"it was cut to {size} bytes, although it should have {expected} pages of {page_bytes} bytes"


def read_log(content: bytes) -> Log | None:
    """Read a write-ahead log as SQLite does. Return None if the log has frames but no valid header."""
    if len(content) < LOG_HEADER + FRAME_HEADER:
        return Log()
    magic, _, page_bytes, _, salt_1, salt_2, *sums = struct.unpack(">8I", content[:LOG_HEADER])
    words = np.dtype(">u4" if magic & 1 else "<u4")
    header: Sums = np.frombuffer(content[:24], words).astype(np.uint32)[None]
    state = _contributions(header)[0]
    sound = magic & ~1 == MAGIC and page_bytes >= 512 and page_bytes & (page_bytes - 1) == 0
    if not sound or [int(each) for each in state] != sums:
        return None
    frame_bytes = FRAME_HEADER + page_bytes
    count = (len(content) - LOG_HEADER) // frame_bytes
    frames = np.frombuffer(content, np.uint8, count * frame_bytes, LOG_HEADER).reshape(count, frame_bytes)
    heads = np.ascontiguousarray(frames[:, :FRAME_HEADER]).view(">u4").astype(np.int64)
    own = (heads[:, 2] == salt_1) & (heads[:, 3] == salt_2)
    belongs = int(own.argmin()) if not own.all() else count
    read = _readable(frames[:belongs], heads, words, state)
    return _log(heads, own, belongs=belongs, read=read)


def _log(heads: NDArray[np.int64], own: NDArray[np.bool_], *, belongs: int, read: int) -> Log:
    commits = np.flatnonzero(own & (heads[:, 1] != 0))
    last = commits[commits < read]
    kept = int(last[-1]) + 1 if last.size else 0
    return Log(
        frames=max(belongs, int(commits[-1]) + 1 if commits.size else 0),
        read=read,
        lost=int((commits >= read).sum()),
        pages=frozenset(int(number) for number in heads[:kept, 0]),
        pages_after=int(heads[kept - 1, 1]) if kept else None,
    )


def _readable(frames: NDArray[np.uint8], heads: NDArray[np.int64], words: np.dtype[Any], state: Sums) -> int:
    """Return the number of frames before the first frame with a wrong checksum."""
    for begin in range(0, len(frames), AT_ONCE):
        some = frames[begin : begin + AT_ONCE]
        summed = np.ascontiguousarray(np.concatenate([some[:, :8], some[:, FRAME_HEADER:]], axis=1))
        parts = _contributions(summed.view(words).astype(np.uint32))
        carry = _carry(summed.shape[1] // 8)
        for index, part in enumerate(parts, start=begin):
            state = (carry * state).sum(axis=1, dtype=np.uint32) + part
            if [int(each) for each in state] != [int(each) for each in heads[index, 4:6]]:
                return index
    return len(frames)


def _contributions(words: Sums) -> Sums:
    """Return the contribution of each row of words to the two running checksums, modulo 2**32.

    A checksum step adds two words x and y to the sums: first ``s0 += x + s1``, then ``s1 += y + s0``. Steps are linear.
    After a row of n steps, the sums are M**n times the sums before the row, plus the row's words multiplied by fixed
    weights, with M = ((1, 1), (1, 2)).
    """
    return (words @ _weights(words.shape[1] // 2)).astype(np.uint32)


@cache
def _powers(steps: int) -> tuple[tuple[int, int, int, int], ...]:
    """Return the matrix powers M**0 to M**steps, each as a tuple of its entries (a, b, c, d)."""
    powers = [(1, 0, 0, 1)]
    for _ in range(steps):
        a, b, c, d = powers[-1]
        powers.append(((a + b) % 2**32, (a + 2 * b) % 2**32, (c + d) % 2**32, (c + 2 * d) % 2**32))
    return tuple(powers)


@cache
def _weights(steps: int) -> Sums:
    """Return the weights of a row's words in the two checksums, shape (2 * steps, 2)."""
    rows = []
    for a, b, c, d in reversed(_powers(steps - 1)):
        rows += [((a + b) % 2**32, (c + d) % 2**32), (b, d)]
    return np.array(rows, np.uint32)


@cache
def _carry(steps: int) -> Sums:
    a, b, c, d = _powers(steps)[-1]
    return np.array([[a, b], [c, d]], np.uint32)
