"""Finds the headers that belong to a kernel among the files that a compiler read. An export contains these headers."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from evo.export.headers import FAMILY, MOST_BYTES, MOST_FILES
from evo.family.source.flags import header_folders
from workers.build import Unit
from workers.system.log import log

_SYSTEM = "/usr"
_TOOLKIT = "cuda_runtime.h"
"""File by which the folder of a CUDA toolkit is recognised."""

_NO_SOURCES = (".py", ".toml", ".md")
"""Suffixes of files that are not headers. Such files occur because, for a compiler that does not report the files that
it read, all files in its header folders are listed."""


def own_headers(reads: Iterable[str], unit: Unit) -> dict[str, str]:
    """Return the paths of a kernel's own headers by their names in an export.

    The result does not contain headers of the system or of CUDA.
    """
    folders = {} if unit.root is None else {FAMILY: str(unit.root)}
    named = enumerate(header_folders(unit.placed_flags))
    folders |= {str(number): folder for number, folder in named if not everywhere(folder)}
    found: dict[str, str] = {}
    for path in map(os.path.normpath, reads):
        name = _name(path, folders)
        if name is not None and not path.endswith(_NO_SOURCES):
            found[name] = path
    return found


def contents(headers: Mapping[str, str]) -> dict[str, bytes]:
    """Return the contents of headers by name.

    The result is empty if a header is missing, or if there are too many headers, or too large ones, to be stored with a
    trial.
    """
    try:
        total = sum(Path(path).stat().st_size for path in headers.values())
        if len(headers) > MOST_FILES or total > MOST_BYTES:
            event = "the headers of a kernel are too large to be stored with the trial"
            log().warning(event, files=len(headers), bytes=total)
            return {}
        return {name: Path(path).read_bytes() for name, path in headers.items()}
    except OSError as error:
        log().warning("the headers of a kernel cannot be read, and are not stored with the trial", reason=str(error))
        return {}


def _name(path: str, folders: Mapping[str, str]) -> str | None:
    for name, folder in folders.items():
        for root in dict.fromkeys((os.path.normpath(folder), os.path.realpath(folder))):
            if path.startswith(f"{root}{os.sep}"):
                return f"{name}/{path[len(root) + 1 :]}"
    return None


def everywhere(folder: str) -> bool:
    """Return True for ``/usr``, a folder below it, or a folder with the headers of a CUDA toolkit.

    Headers in such folders are not exported, because a machine that compiles the export has them.
    """
    path = os.path.realpath(folder)
    return path == _SYSTEM or path.startswith(f"{_SYSTEM}/") or Path(path, _TOOLKIT).exists()
