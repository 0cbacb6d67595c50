"""The headers that an exported source includes, packed as one ZIP file.

In the ZIP, ``family/`` contains headers of the family's folder. ``0/``, ``1/``, … contain the headers of other folders,
in the order of the compiler flags that name these folders.
"""

import io
import stat
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from evo.errors import InvalidInput
from evo.family.source.flags import relocated
from evo.text.archive import DirectoryTooLarge, open_zip

NAME = "headers"
"""Name of the artefact with the headers, and of their folder in an export."""

FAMILY = "family"
SHARED = "include"
"""Subfolder of a family in which the compiler finds headers without a flag."""

MOST_FILES, MOST_BYTES = 4_000, 32 << 20
_PLACEHOLDER = ".keep"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError, NotImplementedError)
"""Errors of `zipfile` on content that is not a valid ZIP."""


TOO_LARGE = f"must not contain more than {MOST_FILES:,} files or {MOST_BYTES >> 20} MiB"


def pack_headers(files: Mapping[str, bytes]) -> bytes:
    """Return the files as a ZIP. Equal files give equal bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, files[name], zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def unpack_headers(content: bytes) -> dict[str, bytes]:
    """Return the files of a ZIP that a worker sent, after checking names and sizes.

    Raises:
        InvalidInput: the content is not a ZIP, is too large, or contains a path outside the header folders.
    """
    try:
        with open_zip(content, most_files=MOST_FILES) as archive:
            entries = archive.infolist()
            if len(entries) > MOST_FILES or sum(entry.file_size for entry in entries) > MOST_BYTES:
                raise InvalidInput(NAME, TOO_LARGE)
            for entry in entries:
                _check_name(entry.filename)
            return {entry.filename: archive.read(entry) for entry in entries}
    except InvalidInput:
        raise
    except DirectoryTooLarge:
        raise InvalidInput(NAME, TOO_LARGE) from None
    except _BROKEN as error:
        raise InvalidInput(NAME, f"must be a readable ZIP file: {error}") from error


def laid_out(headers: Mapping[str, bytes], file: str) -> dict[str, bytes]:
    """Return the headers by their paths in an export.

    Args:
        file: path of the source, relative to the family's folder. An include such as ``"../common.h"`` works only if
            the source's folder exists, so a folder without headers gets a placeholder file.
    """
    if not headers:
        return {}
    folder = f"{NAME}/{_source_folder(file)}"
    placed = {f"{NAME}/{name}": content for name, content in headers.items()}
    if any(name.startswith(f"{folder}/") for name in placed):
        return placed
    return {**placed, f"{folder}/{_PLACEHOLDER}": b""}


def flags_at(headers: Mapping[str, bytes], flags: Sequence[str], file: str) -> tuple[str, ...]:
    """Return a family's compiler flags, adapted to the header paths that `laid_out` returns."""
    if not headers:
        return tuple(flags)
    family = f"{NAME}/{FAMILY}"
    searched = dict.fromkeys((f"{NAME}/{_source_folder(file)}", family, f"{family}/{SHARED}"))
    own = {name.partition("/")[0] for name in headers} - {FAMILY}
    carried = {number: f"{NAME}/{number}" for number in own}
    return (*(f"-I{folder}" for folder in searched), *relocated(flags, family, carried))


def _source_folder(file: str) -> str:
    return PurePosixPath(FAMILY, file).parent.as_posix()


def _check_name(name: str) -> None:
    parts = name.split("/")
    if not name.isprintable() or "\\" in name or ":" in name or len(name) > 1000:
        raise InvalidInput(
            NAME, f"the path {name!r:.100} must be printable, at most 1,000 characters long, and without \\ and :"
        )
    if any(part in ("", ".", "..") for part in parts) or not (parts[0] == FAMILY or parts[0].isdecimal()):
        raise InvalidInput(
            NAME, f"the path {name!r:.100} must begin with {FAMILY}/ or a number, and have no empty, . or .. part"
        )
