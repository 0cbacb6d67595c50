"""Paths without a file where a new header would be read instead of one that was read.

A compiler looks for a header in one folder after another. A binary therefore depends on the files that were read and on
the absence of files in the folders before. ccache names this as a case its direct mode cannot see
(https://ccache.dev/manual/latest.html#_the_direct_mode); the remedy here is to record the absent paths.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

_ASKED = re.compile(r"""__has_include(?:_next)?\s*\(\s*(?:"([^"\n]+)"|<([^>\n]+)>)""")
_LISTED = re.compile(r'^ignoring nonexistent directory "(.+)"$')
_BEGINS, _ENDS = ("#include ", "search starts here:"), "End of search list."
_OWN_FRAMEWORKS = " (framework directory)"


def vacancies(reads: Iterable[str], sources: Iterable[str], folders: Sequence[str]) -> list[str]:
    """Return absent paths where a new file might be read instead of one that was read.

    If parent folders of a path are missing, the topmost missing one is listed instead.

    Args:
        reads: absolute paths of the files that were read.
        sources: texts that may test for headers with ``__has_include``.
        folders: absolute paths of the searched folders, in any order.
    """
    read = {os.path.normpath(path) for path in reads}
    roots = {folder: {folder, os.path.realpath(folder)} for folder in folders}
    names = {name for path in read for folder in folders if (name := _below(path, roots[folder])) is not None}
    names |= {quoted or angled for text in sources for quoted, angled in _ASKED.findall(text)}
    exists = cache(os.path.lexists)
    candidates = (os.path.normpath(f"{folder}/{name}") for folder in folders for name in names)
    return sorted({missing for path in candidates if (missing := _missing(path, exists)) is not None})


def all_vacant(paths: Iterable[str]) -> bool:
    """Return True while all paths are absent."""
    return not any(os.path.lexists(path) for path in paths)


def search_list(said: str) -> Iterator[str]:
    """Return the folders in the output of ``cc -E -v``, including missing ones."""
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
    """Return the file's name relative to a folder, given by all its paths; None if it is outside."""
    for root in roots:
        if path.startswith(f"{root}{os.sep}"):
            return path[len(root) + 1 :]
    return None


def _missing(path: str, exists: Callable[[str], bool]) -> str | None:
    """Return the topmost missing folder of a path, else the path; None if it exists."""
    folder = _above(path)
    if exists(folder):
        return None if exists(path) else path
    while not exists(above := _above(folder)):
        folder = above
    return folder


def _above(path: str) -> str:
    return path.rpartition(os.sep)[0] or os.sep
