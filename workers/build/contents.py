"""Digests of the files that compilations read. They are kept in memory until a file changes."""

import hashlib
import os
import re
import time
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

MAX_NAMES = 20_000
"""Maximum number of files below header folders; with more, compiling costs less than listing them."""

_SETTLED_S = 2.0
"""Age in seconds from which a file's times show its next change: file systems have coarse clocks."""

_NAME = re.compile(r"(?:\\[ #\\]|[^\s])+")
"""A file name in Make's syntax, with its escapes."""

_ABSENT = "absent"
_known: dict[str, tuple[tuple[int, ...], str | None]] = {}
"""By path: the file's state (times, size, inode) and its digest; None: its assembler code reads others."""


def digests_of_files(paths: Sequence[str]) -> list[str] | None:
    """Return the SHA-256 of each file, in order; None if the assembler code of one may read others."""
    found: list[str] = []
    for path in paths:
        digest = _digest(path)
        if digest is None:
            return None
        found.append(digest)
    return found


def listed_files(dependencies: Path) -> list[str] | None:
    """Return the files that a dependency file in Make's syntax lists, absolute; None if there is no such file."""
    try:
        text = dependencies.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return None
    listed = text.replace("\\\n", " ").partition(":")[2]
    names = (re.sub(r"\\([ #\\])", r"\1", name).replace("$$", "$") for name in _NAME.findall(listed))
    return [str(dependencies.parent / name) for name in names]


def new_since(time_s: float, paths: Iterable[str]) -> bool:
    """Return True if a file changed at or after this time, so that its content during the read is unknown."""
    for path in paths:
        try:
            status = Path(path).stat()
        except OSError:
            continue
        if max(status.st_mtime, status.st_ctime) >= time_s - 0.01:
            return True
    return False


def digest_of_names(folder: str, *, lasting: bool = False) -> str | None:
    """Return a digest of the names of all files below a folder; None if there are too many.

    A new file may take the place of a header found elsewhere, so it matters before any compiler has read it.

    Args:
        lasting: True if the folder does not change while the process runs.
    """
    return _lasting(folder) if lasting else _names(folder)


@lru_cache(maxsize=256)
def _lasting(folder: str) -> str | None:
    return _names(folder)


def files_below(folders: Iterable[str]) -> tuple[str, ...] | None:
    """Return the paths of all files below some folders; None if there are too many."""
    found: list[str] = []
    for folder in folders:
        for place, _, files in os.walk(folder, followlinks=True):
            found += [f"{place}/{name}" for name in files]
            if len(found) > MAX_NAMES:
                return None
    return tuple(sorted(found))


def _names(folder: str) -> str | None:
    paths = files_below([folder])
    if paths is None:
        return None
    names = "\0".join(path[len(folder) :] for path in paths)
    return hashlib.sha256(names.encode(errors="surrogateescape")).hexdigest()


def _digest(path: str) -> str | None:
    try:
        status = Path(path).stat()
        state = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev)
        if path in _known and _known[path][0] == state:
            return _known[path][1]
        content = Path(path).read_bytes()
    except OSError:
        return _ABSENT
    digest = None if not path.endswith((".a", ".so", ".o")) and assembler_reads(content) else _hashed(content)
    if time.time() - max(status.st_mtime, status.st_ctime) > _SETTLED_S:
        _known[path] = (state, digest)
    return digest


def assembler_reads(content: bytes) -> bool:
    """True if assembler code in a source may read files, which the compiler does not report."""
    joined = re.sub(rb'"\s*"', b"", content)  # adjacent texts are one
    return re.search(rb"incbin|\.include\s*\\?[\"']|\.macro\b", joined) is not None


def _hashed(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
