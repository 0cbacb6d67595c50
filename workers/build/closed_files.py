"""Finds files that a kernel names and cannot see, because kernels of a worker of root run as another user.

The system answers a kernel that asks for such a file as if it did not exist, so nothing fails and the result is
another kernel than the author tried.
"""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from evo.text.shell import quoted

_NAMED = re.compile(r'"(/[^"\\\n]{1,1000})"')
"""Matches an absolute path in a string of a source, or in the value of a macro."""

_ASKS = re.compile(r"\baccess\s*\(")
"""Matches the only call about files that kernels may make."""

_INCLUDE = re.compile(r"^\s*#\s*include\b.*$", re.MULTILINE)

MOST = 3
"""Maximum number of files that are reported."""


def closed_files(source: str, flags: Sequence[str] = ()) -> Iterator[str]:
    """Yield a sentence for each path in a source or flag that lies in a folder which other users may not enter.

    Nothing is yielded for sources that ask for no file, nor in processes that are not root's: their kernels run as the
    same user.
    """
    if os.geteuid() != 0 or not _ASKS.search(source):
        return
    texts = (_INCLUDE.sub("", source), *flags)
    named = dict.fromkeys(Path(found) for text in texts for found in _NAMED.findall(text))
    closed = [(path, folder) for path in named if (folder := _closed(path)) is not None]
    for path, folder in closed[:MOST]:
        yield (
            f"The kernel names {path} and cannot see it: kernels of a worker of root run as another user, who may not "
            f"enter {folder}. Let others enter it, chmod o+x {quoted(str(folder))}, or run the worker as another user."
        )


def _closed(path: Path) -> Path | None:
    """Return the first folder above a path that other users may not enter; None if there is none."""
    for folder in reversed(path.parents):
        try:
            mode = folder.stat().st_mode
        except OSError:
            return None
        if not mode & stat.S_IXOTH:
            return folder
    return None
