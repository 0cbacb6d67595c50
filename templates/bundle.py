"""Packs the folder of a family as a ZIP file (a bundle) for upload, and unpacks and checks bundles.

Bundles come from untrusted users. Only regular files with plain relative names are unpacked, and their number and size
are limited.
"""

import io
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from evo.errors import InvalidInput, RenderError
from evo.family import Family
from evo.text.archive import DirectoryTooLarge, open_zip
from evo.text.document import read_toml
from evo.text.encoding import not_utf8, utf8_text
from templates.registry import (
    MAX_FILES,
    MAX_FOLDER_BYTES,
    REFERENCE,
    SPEC,
    Package,
    files_digest,
    own_files,
    package_of,
)
from templates.render import check_source

SCHEME = "bundle:"
"""Prefix of a family's location if the location is the digest of an artefact, not a path."""

MAX_SPEC_BYTES = 256 << 10
_EPOCH = (1980, 1, 1, 0, 0, 0)
LONGEST_PATH = 200
"""Maximum number of characters of a path in a bundle."""
PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")
"""Matches valid names of folders and files in a family."""

_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,
    NotImplementedError,
    OverflowError,
)
"""Exceptions that `zipfile` raises for invalid ZIP files."""

WHERE = "bundle"
_FEWER = "remove files that the family does not need"


def pack(package: Package) -> bytes:
    """Return the bundle of a family's own files. Equal files give equal bundles.

    Raises:
        InvalidInput: the family is a recording, or a file has a name that `unpack` refuses.
    """
    if package.recording is not None:
        raise InvalidInput(WHERE, f"{package.path} is a recording; store it where the workers can read it")
    files = own_files(package)
    _check_names(files)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, files[name], zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def unpack(content: bytes) -> dict[str, bytes]:
    """Return the files of a bundle by name.

    Raises:
        InvalidInput: the bundle is not a valid ZIP file, is too large, lacks a required file, or contains an entry that
            is not a regular file with a plain name.
    """
    try:
        with open_zip(content, most_files=MAX_FILES) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            _check_entries(entries)
            files = dict(_read(archive, entries))
    except InvalidInput:
        raise
    except DirectoryTooLarge:
        raise InvalidInput(WHERE, f"contains more than {MAX_FILES} files; {_FEWER}") from None
    except _BROKEN as error:
        raise InvalidInput(WHERE, f"is not a valid ZIP file: {error}") from error
    for name in (SPEC, REFERENCE):
        if name not in files:
            raise InvalidInput(WHERE, f"contains no {name}; pack the family's folder itself, not its parent folder")
    return files


def digest_of(files: Mapping[str, bytes]) -> str:
    """Return the digest of a family with these files and with the shared includes of this version of kernel-evo."""
    return files_digest(files)


def family_of(files: Mapping[str, bytes]) -> Family:
    """Return the family that `files` declares in family.toml. No file on disk is read.

    Raises:
        InvalidInput: family.toml is invalid, or names a file that is missing.
    """
    if len(files[SPEC]) > MAX_SPEC_BYTES:
        raise InvalidInput(
            SPEC, f"is larger than {MAX_SPEC_BYTES >> 10} KiB; move data into another file of the bundle"
        )
    try:
        document = read_toml(utf8_text(files[SPEC]))
    except UnicodeDecodeError as error:
        raise InvalidInput(SPEC, not_utf8(files[SPEC], error, SPEC)) from error
    except ValueError as error:
        raise InvalidInput(SPEC, f"cannot be read as TOML: {error}") from error
    family = Family.from_document(document, SPEC)
    for kind, implementation in family.implementations.items():
        if implementation.file not in files:
            raise InvalidInput(f"{SPEC}: {kind}", f"the file {implementation.file} is missing from the bundle; add it")
    return family


def check_sources(family: Family, files: Mapping[str, bytes]) -> None:
    """Check that plain and Triton sources use the names that family.toml declares.

    Templates are checked later, when they are rendered for a config.

    Raises:
        InvalidInput: a tunable has no effect, or a source redefines a macro.
    """
    package = package_of(family, files)
    for kind in family.implementations:
        try:
            check_source(package, kind)
        except RenderError as error:
            raise InvalidInput(f"{SPEC}: {kind}", str(error)) from error


def _check_entries(entries: list[zipfile.ZipInfo]) -> None:
    if len(entries) > MAX_FILES:
        raise InvalidInput(WHERE, f"contains more than {MAX_FILES} files; {_FEWER}")
    if sum(entry.file_size for entry in entries) > MAX_FOLDER_BYTES:
        raise InvalidInput(WHERE, f"unpacks to more than {MAX_FOLDER_BYTES >> 20} MiB; {_FEWER}")
    for entry in entries:
        if stat.S_IFMT(entry.external_attr >> 16) not in {0, stat.S_IFREG}:
            raise InvalidInput(WHERE, f"{entry.filename!r:.100} is not a regular file; remove it")
        if entry.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED} or entry.flag_bits & 1:
            wrong = f"{entry.filename!r:.100} is encrypted, or compressed by an unsupported method"
            raise InvalidInput(WHERE, f"{wrong}; use the method deflate without encryption")
    _check_names([entry.filename for entry in entries])


def _check_names(names: Mapping[str, bytes] | list[str]) -> None:
    taken: set[str] = set()
    for name in names:
        parts = name.split("/")
        if name.endswith(".pyc") or "__pycache__" in parts:
            raise InvalidInput(WHERE, f"{name!r:.100} is Python's bytecode cache; remove it")
        if len(name) > LONGEST_PATH or not all(map(PART.fullmatch, parts)):
            reason = f"{name!r:.100} is not an accepted path; use a relative path of at most {LONGEST_PATH} characters"
            parts_rule = "whose parts have at most 100 letters, digits and _ . + -, a letter, digit or _ first"
            raise InvalidInput(WHERE, f"{reason}, {parts_rule}")
        if name.casefold() in taken:
            raise InvalidInput(WHERE, f"{name!r:.100} occurs twice; remove one of the entries")
        taken.add(name.casefold())
    for name in names:
        for folder in PurePosixPath(name.casefold()).parents:
            if str(folder) in taken:
                raise InvalidInput(WHERE, f"{name!r:.100} is below a path that is a file; rename one of them")


def _read(archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo]) -> Iterator[tuple[str, bytes]]:
    for entry in entries:
        with archive.open(entry) as file:
            content = file.read(entry.file_size + 1)
        if len(content) != entry.file_size:
            reason = f"{entry.filename!r:.100} does not have the length that its header states"
            raise InvalidInput(WHERE, f"{reason}; create the ZIP file again")
        yield entry.filename, content
