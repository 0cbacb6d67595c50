"""Digests of the files that compilations read, and paths at which a new header would change a build.

A compiler searches for a header in several folders, one after the other. A binary therefore depends on the files that
were read, and on the absence of files in earlier folders.
"""

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path

MAX_NAMES = 20_000
"""Maximum number of files below header folders that are listed. Listing more files would take longer than compiling."""

_SETTLED_S = 2.0
"""Minimum age in seconds of a file whose digest is stored. A newer file may change without a change of its timestamps,
because file systems have coarse clocks."""

_NAME = re.compile(r"(?:\\[ #\\]|[^\s])+")
"""Matches a file name in Make's syntax, with escapes."""

_LIBRARY = re.compile(r"\.(?:a|o|dylib|so(?:\.\d+)*)$")
_ABSENT = "absent"
_known: dict[str, tuple[tuple[int, ...], str | None]] = {}
"""State (timestamps, size, inode) and digest of files by path. The digest is None if the file may make the compiler
read other files that it does not report.
"""


def digests_of_files(paths: Sequence[str]) -> list[str] | None:
    """Return the SHA-256 of each file, and ``absent`` for a file that cannot be read.

    The result is None if a file may make the compiler read files that are not in `paths`.
    """
    found: list[str] = []
    for path in paths:
        digest = _digest(path)
        if digest is None:
            return None
        found.append(digest)
    return found


def listed_files(dependencies: Path) -> list[str] | None:
    """Return the absolute paths in a dependency file (in Make's syntax), or None if there is no such file."""
    try:
        text = dependencies.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return None
    listed = text.replace("\\\n", " ").partition(":")[2]
    names = (re.sub(r"\\([ #\\])", r"\1", name).replace("$$", "$") for name in _NAME.findall(listed))
    return [str(dependencies.parent / name) for name in names]


def new_since(time_s: float, paths: Iterable[str]) -> bool:
    """Return True if a file changed at or after a time (Unix time in seconds). Missing files are ignored."""
    for path in paths:
        try:
            status = Path(path).stat()
        except OSError:
            continue
        if max(status.st_mtime, status.st_ctime) >= time_s - 0.01:
            return True
    return False


def digest_of_names(folder: str, *, lasting: bool = False) -> str | None:
    """Return a digest of the names of all files below a folder, or None if there are too many files.

    Files that no compilation has read yet are included, because a new file can hide a header in a later folder.

    Args:
        lasting: True if the folder does not change while this process runs.
    """
    return _lasting(folder) if lasting else _names(folder)


@lru_cache(maxsize=256)
def _lasting(folder: str) -> str | None:
    return _names(folder)


def files_below(folders: Iterable[str]) -> tuple[str, ...] | None:
    """Return the paths of all files below these folders, or None if there are too many."""
    found: list[str] = []
    for folder in folders:
        for parent, _, files in os.walk(folder, followlinks=True):
            found += [f"{parent}/{name}" for name in files]
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
    names_others = _names_libraries(path, content) if is_library(path) else assembler_reads(content)
    digest = None if names_others else _hashed(content)
    if time.time() - max(status.st_mtime, status.st_ctime) > _SETTLED_S:
        _known[path] = (state, digest)
    return digest


def is_library(path: str) -> bool:
    return _LIBRARY.search(path) is not None


def _names_libraries(path: str, content: bytes) -> bool:
    """Return True if a file is a linker script or thin archive, which refers to other files.

    Files in system folders are not checked.
    """
    return not path.startswith(("/usr/", "/lib")) and (content.startswith(b"!<thin>") or b"\0" not in content)


def assembler_reads(content: bytes) -> bool:
    """Return True if inline assembly in a source may read files. Compilers do not report these files."""
    joined = re.sub(rb'"\s*"', b"", content)  # a compiler joins adjacent string literals
    return re.search(rb"incbin|\.include\s*\\?[\"']|\.macro\b", joined) is not None


def _hashed(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


_UNSEEN = re.compile(r"(?:\\|\?\?/)\r?\n|/\*.*?(?:\*/|\Z)|//[^\n]*", re.DOTALL)
"""Matches line continuations and comments, which a preprocessor removes before it expands macros."""

_ASKS = re.compile(r"""\b__has_(?:embed\b|include(?:_next)?\b(?:\s*+\(\s*+(?:"([^"\n]+)"|<([^>\n]+)>))?)""")
_TESTED = re.compile(r"(?:\bdefined\s*\(?|\#\s*(?:ifdef|ifndef|elifdef|elifndef|undef)\s)\s*\Z")
_NEAR = 80
"""Number of characters before a word that are searched for `_TESTED`."""

_LISTED = re.compile(r'^ignoring nonexistent directory "(.+)"$')
_BEGINS, _ENDS = ("#include ", "search starts here:"), "End of search list."
_OWN_FRAMEWORKS = " (framework directory)"


def asked_headers(source: str) -> list[str] | None:
    """Return the headers that a source tests with ``__has_include``.

    Return None in two cases: a macro determines a header's name, or the source uses ``__has_embed``. The value of
    ``__has_embed`` depends on the contents of a file that the compiler need not report.
    """
    plain = _UNSEEN.sub(lambda seen: " " if seen[0].startswith("/") else "", source)
    found = _ASKS.finditer(plain)
    names = [
        each[1] or each[2] for each in found if not _TESTED.search(plain[max(0, each.start() - _NEAR) : each.start()])
    ]
    return None if None in names else names


def vacancies(reads: Iterable[str], asked: Iterable[str], folders: Sequence[str]) -> list[str]:
    """Return the paths at which no file exists, but at which a compiler would read a new file.

    If parent folders of a path are missing, the topmost missing folder is returned instead. A symbolic link without a
    target counts as absent.

    Args:
        reads: absolute paths of the files that were read.
        asked: names or absolute paths of the headers that the sources test with ``__has_include``.
        folders: absolute paths of the header folders, in any order.
    """
    read = {os.path.normpath(path) for path in reads}
    roots = {folder: {folder, os.path.realpath(folder)} for folder in folders}
    names = {name for path in read for folder in folders if (name := _below(path, roots[folder])) is not None}
    names |= {*asked}
    exists = cache(lambda path: Path(path).exists())
    placed = {name for name in names if Path(name).is_absolute()}
    candidates = placed | {f"{folder}/{name}" for folder in folders for name in names - placed}
    normal = map(os.path.normpath, candidates)
    return sorted({missing for path in normal if (missing := _missing(path, exists)) is not None})


def all_vacant(paths: Iterable[str]) -> bool:
    """Return True if no file or folder exists at any of the paths."""
    return not any(Path(path).exists() for path in paths)


def search_list(said: str) -> Iterator[str]:
    """Yield the header folders that ``cc -E -v`` printed, including missing folders."""
    listing = False
    for line in said.splitlines():
        if (absent := _LISTED.match(line)) is not None:
            yield os.path.normpath(absent[1])
        elif line.startswith(_BEGINS[0]) and line.endswith(_BEGINS[1]):
            listing = True
        elif line == _ENDS:
            return
        elif listing and line.startswith(" ") and not line.endswith(_OWN_FRAMEWORKS):
            yield os.path.normpath(line[1:])


def _below(path: str, roots: Iterable[str]) -> str | None:
    """Return the path of a file relative to a folder, or None if the file is outside.

    `roots` contains the absolute path of the folder and all its aliases.
    """
    for root in roots:
        if path.startswith(f"{root}{os.sep}"):
            return path[len(root) + 1 :]
    return None


def _missing(path: str, exists: Callable[[str], bool]) -> str | None:
    """Return the topmost missing folder of a file, its path if only the file is missing, or None if the file exists."""
    folder = _above(path)
    if exists(folder):
        return None if exists(path) else path
    while not exists(above := _above(folder)):
        folder = above
    return folder


def _above(path: str) -> str:
    return path.rpartition(os.sep)[0] or os.sep
