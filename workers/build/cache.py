"""Disk cache whose entries have checksums. Any entry may be deleted at any time."""

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from workers.system.log import log

LIMIT_BYTES = 2 << 30
_CHECKSUM_BYTES = 32
_warned: set[Path] = set()
"""Folders for which this process has already logged a warning."""


def cache_key(*parts: str) -> str:
    """Return a key for a sequence of texts.

    The key also depends on the boundaries of the texts: ``("ab", "c")`` and ``("a", "bc")`` give different keys.
    """
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.hexdigest()


class Cache:
    """A cache in one folder. Entries are written atomically, and checked whenever they are read.

    Args:
        folder: cache folder, which is created on the first write. Several processes may share it.
        limit_bytes: total size above which the least recently used entries are deleted.
    """

    def __init__(self, folder: Path, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self.warning: str | None = None
        self._held_bytes: int | None = None

    def get(self, key: str) -> bytes | None:
        """Return the content of the entry `key`, or None if the entry is absent, unreadable or damaged."""
        path = self._path(key)
        try:
            with path.open("rb", buffering=0) as file:  # without a buffer, large contents are not copied
                checksum, content = file.read(_CHECKSUM_BYTES), file.readall()
        except OSError:
            return None
        if hashlib.sha256(content).digest() != checksum:
            log().warning("a damaged cache entry is deleted", path=str(path))
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return content

    def put(self, key: str, content: bytes) -> None:
        """Store `content` as the entry `key`. If the folder cannot be written, log a warning once."""
        try:
            self._write(self._path(key), hashlib.sha256(content).digest(), content)
        except OSError as error:
            self._warn(error)

    def _write(self, path: Path, *parts: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.writelines(parts)
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
        self._count(sum(map(len, parts)))

    def _count(self, added_bytes: int) -> None:
        if self._held_bytes is None:
            self._held_bytes = sum(size for _, size, _ in self._entries())
        else:
            self._held_bytes += added_bytes
        if self._held_bytes > self.limit_bytes:
            self._evict()

    def _evict(self) -> None:
        """Delete the least recently used entries until a tenth of the limit is free, so that few writes need this."""
        entries = sorted(self._entries())
        total = sum(size for _, size, _ in entries)
        for _, size, path in entries:
            if total <= 0.9 * self.limit_bytes:
                break
            with contextlib.suppress(OSError):  # an entry that cannot be deleted must not stop the loop
                path.unlink(missing_ok=True)
                total -= size
        self._held_bytes = total

    def _entries(self) -> Iterable[tuple[float, int, Path]]:
        """Yield (time of last use, size in bytes, path) of every file, including old temporary files."""
        for path in self.folder.glob("??/*"):
            with contextlib.suppress(OSError):
                status = path.lstat()
                if not stat.S_ISDIR(status.st_mode):
                    yield status.st_mtime, status.st_size, path

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / key

    def _warn(self, error: OSError) -> None:
        if self.warning is None:
            reason = error.strerror or str(error)
            self.warning = (
                f"the cache folder {self.folder} cannot be written ({reason}). Without the cache, everything is "
                "compiled again; free disk space, or choose a different folder with `kernel-evo worker --cache`"
            )
            if self.folder not in _warned:
                _warned.add(self.folder)
                log().warning("the cache cannot be written", warning=self.warning)
