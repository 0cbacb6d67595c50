"""Finds the folders of the libraries that a kernel uses, and gives kernel processes access to them.

A worker that runs as root starts kernel processes under a different user id. That user cannot enter folders below
``/root`` (mode 0700), where a toolchain and its libraries may be installed. A kernel process therefore inherits an open
descriptor of such a folder. The access rights of the folder itself and of its files still apply, unless the system lets
kernels enter private folders (`workers.system.private_folders`).

With Landlock, a kernel process can read only files in `READABLE`, and shared libraries in the searched folders.
"""

import mmap
import os
import re
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from evo.text.shell import quoted
from workers.system.private_folders import all_may_enter, kernels_may_enter

LIBRARY_PATH_VARIABLE = "LD_LIBRARY_PATH"
"""Environment variable with folders in which the dynamic linker searches for libraries."""

READABLE = (
    *("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"),
    *(f"{above}/{name}" for above in ("", "/usr", "/usr/local") for name in ("lib", "lib32", "lib64", "libx32")),
    *("/nix/store", "/gnu/store"),
    "/etc/ld.so.cache",
)
"""Files of the system that a kernel process can read with Landlock, and folders with only such files."""

_CACHE = Path("/etc/ld.so.cache")
_PATH = re.compile(rb"(/[^\0]+)/[^/\0]+(?=\0)")
"""Matches the path of a library in the cache. The group is its folder."""
_DYNAMIC = 6
_NEEDED, _RPATH, _RUNPATH = 1, 15, 29
_MOST_LIBRARIES = 200


@dataclass(frozen=True, kw_only=True)
class Passage:
    """Resources that a kernel process needs to load its libraries.

    Attributes:
        descriptors: descriptors to inherit.
        variables: environment variables to set.
        folders: folders other than `READABLE` in which the process must be able to read shared libraries.
    """

    descriptors: tuple[int, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()


@contextmanager
def passage(library: Path, *, other_user: bool) -> Iterator[Passage]:
    """Context manager that gives a kernel process access to the folders of a library's dependencies.

    During the ``with`` block, the folders that other users cannot reach are open.

    Args:
        other_user: True if the kernel process runs as a different user.
    """
    ways: list[str] = []
    opened: list[int] = []
    folders, dependencies = _search(library)
    try:
        for folder in folders if other_user else ():
            ways.append(str(folder))
            if any(not all_may_enter(above) for above in folder.parents):
                opened.append(os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
                ways[-1] = f"/proc/self/fd/{opened[-1]}"
        yield Passage(
            descriptors=tuple(opened),
            variables={LIBRARY_PATH_VARIABLE: ":".join(ways)} if opened else {},
            folders=_outside([*folders, *_configured(), *(each.resolve().parent for each in dependencies)]),
        )
    finally:
        for descriptor in opened:
            os.close(descriptor)


def searched_folders(library: Path) -> list[Path]:
    """Return the existing folders in which the dynamic linker searches for dependencies of a library.

    The linker's default folders are not included.
    """
    return _search(library)[0]


def _search(library: Path) -> tuple[list[Path], list[Path]]:
    """Return the folders in which the dynamic linker searches for a library's dependencies, and the dependencies found.

    Dependencies of dependencies are included, and so are the folders in the environment variable ``LD_LIBRARY_PATH``.
    The folders in the linker's cache are searched, but not returned.
    """
    found = dict.fromkeys(_folders(os.environ.get(LIBRARY_PATH_VARIABLE, ""), None))
    waiting, seen = [(library, False)], dict.fromkeys([library])
    while waiting:
        here, has_origin = waiting.pop()
        needed, paths = _dynamic(here)
        found.update(dict.fromkeys(_folders(paths, here.parent if has_origin else None)))
        for other in (folder / name for name in needed for folder in (*found, *_configured())):
            if len(seen) < _MOST_LIBRARIES and other not in seen and other.is_file():
                seen[other] = None
                waiting.append((other, True))
    return list(found), list(seen)[1:]


@cache
def _configured() -> tuple[Path, ...]:
    """Return the folders in the cache of the dynamic linker (``ldconfig``). Each process reads the cache once."""
    try:
        paths = sorted({os.fsdecode(path) for path in _PATH.findall(_CACHE.read_bytes())})
    except OSError:  # the system has no cache
        return ()
    return tuple(Path(path).resolve() for path in paths if Path(path).is_dir())


@cache
def _system() -> tuple[str, ...]:
    return tuple(f"{os.path.realpath(path)}/" for path in READABLE)


def _outside(folders: Iterable[Path]) -> tuple[str, ...]:
    """Return the folders that are not within `READABLE`, each once."""
    return tuple(dict.fromkeys(str(each) for each in folders if not f"{each}/".startswith(_system())))


def remedy(library: Path, error: str, separation: str) -> str:
    """Return advice if the error is about a missing library or function, else an empty string.

    Args:
        separation: isolation mechanisms of the kernel process that reported the error.
    """
    if (missing := re.search(r"undefined symbol: (\S+)", error)) is not None:
        return f'; define {missing[1]} in the source, or add its library to the flags, e.g. flags = ["-lm"]'
    if "cannot open shared object file" not in error:
        return ""
    if not kernels_may_enter(separation) and (closed := _closed(library)):
        named = " ".join(quoted(str(path)) for path in closed)
        return f"; the worker is root, so kernels run as a different user, who needs access: chmod -R o+rX {named}"
    flags = 'flags = ["-Wl,-rpath,/opt/lib"]'
    return f"; add the folder to the flags, e.g. {flags}, or to {LIBRARY_PATH_VARIABLE} of the worker"


def _closed(library: Path) -> list[Path]:
    """Return the folders that are searched for a library's dependencies, but that other users may not enter.

    If there are none, return the dependencies that other users may not read.
    """
    folders = searched_folders(library)
    files = [folder / name for folder in folders for name in _dynamic(library)[0]]
    closed = [folder for folder in folders if not all_may_enter(folder)]
    return closed or [file for file in files if file.is_file() and not file.stat().st_mode & stat.S_IROTH]


def _folders(paths: str, origin: Path | None) -> Iterator[Path]:
    """Yield the existing folders of a search path.

    Relative paths are skipped, because kernel processes have a different working directory.

    Args:
        paths: folders, separated by colons.
        origin: folder that replaces ``$ORIGIN``. If None, paths with ``$ORIGIN`` are skipped.
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
        with library.open("rb") as file:
            image = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # the file may be large
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
                    text = image[start : image.find(b"\0", start)].decode(errors="replace")
                    (needed if tag == _NEEDED else paths).append(text)
    except (OSError, OverflowError, struct.error, ValueError, IndexError):
        return [], ""
    return needed, ":".join(paths)
