"""Gives kernel processes access to the folders of the libraries that a kernel uses.

A worker that runs as root starts kernel processes under a different user id. That user cannot enter folders below
``/root`` (mode 0700), where a toolchain and its libraries may be installed. A kernel process therefore inherits an open
descriptor of such a folder. The access rights of the folder itself and of its files still apply.
"""

import os
import re
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from evo.text.shell import quoted

SEARCHED = "LD_LIBRARY_PATH"
_DYNAMIC = 6
_NEEDED, _RPATH, _RUNPATH = 1, 15, 29
_MOST_LIBRARIES = 200


@dataclass(frozen=True, kw_only=True)
class Passage:
    """Descriptors that a kernel process inherits, and environment variables, so that it can load its libraries."""

    descriptors: tuple[int, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def passage(library: Path) -> Iterator[Passage]:
    """Context manager that gives a kernel process access to the folders of a library's dependencies.

    During the block, the folders that other users cannot reach are open.
    """
    ways: list[str] = []
    opened: list[int] = []
    try:
        for folder in searched_folders(library):
            ways.append(str(folder))
            if any(not _enters(above) for above in folder.parents):
                opened.append(os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
                ways[-1] = f"/proc/self/fd/{opened[-1]}"
        yield Passage(descriptors=tuple(opened), variables={SEARCHED: ":".join(ways)} if opened else {})
    finally:
        for descriptor in opened:
            os.close(descriptor)


def searched_folders(library: Path) -> list[Path]:
    """Return the existing folders in which the dynamic linker searches for dependencies of a library."""
    found = dict.fromkeys(_folders(os.environ.get(SEARCHED, ""), None))
    waiting, seen = [(library, False)], {library}
    while waiting:
        here, has_origin = waiting.pop()
        needed, paths = _dynamic(here)
        found.update(dict.fromkeys(_folders(paths, here.parent if has_origin else None)))
        for other in (folder / name for name in needed for folder in found):
            if len(seen) < _MOST_LIBRARIES and other not in seen and other.is_file():
                seen.add(other)
                waiting.append((other, True))
    return list(found)


def remedy(library: Path, error: str) -> str:
    """Return advice if the error is about a missing library or function, else an empty string."""
    if (missing := re.search(r"undefined symbol: (\S+)", error)) is not None:
        return f'; define {missing[1]} in the source, or add its library to the flags, e.g. flags = ["-lm"]'
    if "cannot open shared object file" not in error:
        return ""
    if os.geteuid() == 0 and (closed := _closed(library)):
        named = " ".join(quoted(str(path)) for path in closed)
        return f"; the worker is root, so kernels run as a different user, who needs access: chmod -R o+rX {named}"
    return f'; add the folder to the flags, e.g. flags = ["-Wl,-rpath,/opt/lib"], or to {SEARCHED} of the worker'


def _closed(library: Path) -> list[Path]:
    """Return the folders that are searched for a library's dependencies, but that other users may not enter.

    If there are none, return the dependencies that other users may not read.
    """
    folders = searched_folders(library)
    files = [folder / name for folder in folders for name in _dynamic(library)[0]]
    closed = [folder for folder in folders if not _enters(folder)]
    return closed or [file for file in files if file.is_file() and not file.stat().st_mode & stat.S_IROTH]


def _enters(folder: Path) -> bool:
    """Return True if all users may access the contents of the folder."""
    try:
        return bool(folder.stat().st_mode & stat.S_IXOTH)
    except OSError:
        return False


def _folders(paths: str, origin: Path | None) -> Iterator[Path]:
    """Yield the existing folders of a search path.

    Relative paths are skipped, because kernel processes have a different working directory.
    """
    if origin is not None:
        paths = paths.replace("${ORIGIN}", str(origin)).replace("$ORIGIN", str(origin))
    for path in paths.split(":"):
        if path.startswith("/") and "$" not in path and Path(path).is_dir():
            yield Path(path).resolve()


def _dynamic(library: Path) -> tuple[list[str], str]:
    """Return the dependencies and the search path of a 64-bit little-endian ELF file.

    Both are empty for other files.
    """
    try:
        image = library.read_bytes()
        if image[:6] != b"\x7fELF\x02\x01":
            return [], ""
        table, size, count = struct.unpack_from("<Q", image, 40)[0], *struct.unpack_from("<HH", image, 58)
        sections = [struct.unpack_from("<IIQQQQIIQQ", image, table + number * size) for number in range(count)]
        needed, paths = list[str](), list[str]()
        for _, kind, _, _, offset, bytes_, link, *_ in sections:
            for at in range(offset, offset + bytes_, 16) if kind == _DYNAMIC else ():
                tag, value = struct.unpack_from("<qQ", image, at)
                start = sections[link][4] + value
                if tag in (_NEEDED, _RPATH, _RUNPATH):
                    text = image[start : image.index(b"\0", start)].decode(errors="replace")
                    (needed if tag == _NEEDED else paths).append(text)
    except (OSError, OverflowError, struct.error, ValueError, IndexError):
        return [], ""
    return needed, ":".join(paths)
