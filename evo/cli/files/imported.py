"""Writes the folder of a family for an existing source (``kernel-evo import``)."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from evo.cli.files.answer import read_answer
from evo.cli.files.local_functions import with_local_functions
from evo.cli.files.writing import check_place, write_folder, writing_to
from evo.errors import InvalidInput, NotFound
from evo.family.importing import Draft, drafted, drafted_from_triton, lacks_c_linkage, read_source, with_roles
from evo.family.importing.writing import family_toml, reference_py, taken_arguments
from evo.family.source.language import language_of
from evo.text.assignments import split_assignments
from evo.text.encoding import not_utf8, python_text, utf8_text
from templates.bundle import PART

_INCLUDE = re.compile(
    r"^[ \t]*(?:#|%:)[ \t]*(?:include|include_next|import)[ \t]*(?:\"([^\"\n]+)\"|<([^>\n]+)>)", re.MULTILINE
)
_COMMENTS = re.compile(r"/\*.*?(?:\*/|\Z)|//[^\n]*", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Headers:
    """Header files that belong to a source.

    Attributes:
        folder: subfolder of the family for the source. Empty (the family's own folder) unless a header is outside the
            folder of the source, e.g. at ``../common.h``.
        files: files to copy, by their future paths in the family.
        missing: names of quoted includes whose files were not found, and files that cannot be copied. Some of the
            names may be headers of the compiler.
    """

    folder: str = ""
    files: Mapping[str, Path] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


def headers_of(file: Path, text: str) -> Headers:
    """Return the headers that a source includes by a relative path, directly or through other headers.

    In the family, the headers have the same paths relative to the source, so no `#include` has to change.
    """
    start = Path(os.path.normpath(Path.cwd() / file))
    found: dict[Path, None] = {}
    missing: dict[str, None] = {}
    waiting = [(start, text)]
    while waiting:
        including, content = waiting.pop(0)
        for quoted, angled in _INCLUDE.findall(_COMMENTS.sub(" ", content)):
            name = quoted or angled
            path = next((each for each in _candidates(including, start, name) if each.is_file()), None)
            if path is None:
                missing.update({quoted: None} if quoted else {})
            elif path != start and path not in found:
                found[path] = None
                waiting.append((path, path.read_text(encoding="utf-8", errors="replace")))
    root = _root(start.parent, found)
    files = {each.relative_to(root).as_posix(): each for each in found if _fits(each, root)}
    return Headers(
        folder="" if root == start.parent else start.parent.relative_to(root).as_posix(),
        files=files,
        missing=(*missing, *(str(each) for each in found if each not in files.values())),
    )


def _root(folder: Path, found: Iterable[Path]) -> Path:
    """Return the folder that becomes the family: the common folder of the source and its headers.

    If the path from the common folder to the source contains a name that families do not allow, the source's own folder
    is returned.
    """
    root = Path(os.path.commonpath([folder, *(each.parent for each in found)]))
    return root if _fits(folder, root) else folder


def _fits(path: Path, root: Path) -> bool:
    return path.is_relative_to(root) and all(map(PART.fullmatch, path.relative_to(root).parts))


def _candidates(including: Path, source: Path, name: str) -> list[Path]:
    """Return the paths to try for an included name: next to the including file, then next to the source."""
    if Path(name).is_absolute():
        return []
    return [Path(os.path.normpath(each.parent / name)) for each in (including, source)]


_SUFFIXES = {".c": "cpu", ".cpp": "cpu", ".cc": "cpu", ".cxx": "cpu", ".cu": "cuda", ".py": "triton"}


def write_imported(
    file: Path,
    folder: Path | None,
    *,
    entries: Sequence[str] = (),
    reference: str | None = None,
    roles: Iterable[str] = (),
) -> tuple[Path, Draft]:
    """Write a family for a source. Return the folder of the family, and the draft of the family.

    Args:
        folder: folder to create. If None, the folder is in the working directory and has the name of the source.
        entries: names of the kernel functions that one call runs; see `drafted`.
        reference: ``FILE:FUNCTION`` or ``MODULE:FUNCTION`` that computes the expected outputs. If None, the user writes
            the reference later.
        roles: roles of arrays as ``NAME=ROLE``, which take precedence over the inferred roles.

    Raises:
        NotFound: the source cannot be read.
        InvalidInput: the source has an unknown suffix, is not text or has no function to call, or another argument
            names a missing file or function.
        Conflict: the folder exists and is not empty. Nothing is overwritten.
    """
    if file.suffix not in _SUFFIXES:
        raise InvalidInput("FILE", f"{file} is not a source; accepted suffixes: {', '.join(_SUFFIXES)}")
    try:
        content = file.read_bytes()
        text = python_text(content) if file.suffix == ".py" else utf8_text(content).replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InvalidInput("FILE", f"{file} {not_utf8(content, error, str(file))}") from error
    except SyntaxError as error:
        raise InvalidInput("FILE", f"{file}: {error.msg}") from error
    except OSError as error:
        raise NotFound(f"{file} cannot be read: {error.strerror}") from error
    kind = _SUFFIXES[file.suffix]
    headers = Headers() if kind == "triton" else headers_of(file, text)
    try:
        draft, texts = _drafted(text, file, entries, headers)
    except InvalidInput as error:
        raise InvalidInput(str(file) if error.field == "FILE" else error.field, error.reason) from error
    target = folder or Path(re.sub(r"[^a-z0-9_-]+", "_", file.stem.lower()).strip("_-") or "kernel")
    name = check_place(target, "--folder")
    answer = None if reference is None else read_answer(reference)
    stated = {name: role for each in roles for name, role in split_assignments(each, "--role").items()}
    draft = with_roles(draft, stated, taken_arguments(draft, answer) if answer else ())
    source = str(PurePosixPath(headers.folder, _name(file)))
    files: dict[str, str | bytes] = {
        **{name: path.read_bytes() for name, path in headers.files.items()},
        **(answer.modules if answer else {}),
        "family.toml": family_toml(draft, name=name, file=source),
        "reference.py": reference_py(draft, answer),
        **texts,
    }
    with writing_to(target, "--folder"):
        write_folder(target, files)
    return target, draft


def _drafted(text: str, file: Path, entries: Sequence[str], headers: Headers) -> tuple[Draft, dict[str, str]]:
    """Return the family drafted from a source, and the contents of the source and of changed headers, by file name.

    In these contents, each macro of the draft is defined within ``#ifndef``, so that ``-D`` can set the macro. In C++
    and CUDA, entries are declared ``extern "C"``, except instances of templates. Other kernels of a CUDA source are
    declared in the same way, because one call may launch several kernels.
    """
    kind, name = _SUFFIXES[file.suffix], str(PurePosixPath(headers.folder, _name(file)))
    if kind == "triton":
        whole, notes = with_local_functions(text, file)
        own = drafted_from_triton(text, file.name, entries).entry
        draft = drafted_from_triton(whole, file.name, [own])
        return replace(draft, notes=(*draft.notes, *notes)), {name: whole}
    language = language_of(kind, file.name, "FILE")
    source = read_source(text, language)
    read = {
        each: read_source(path.read_text("utf-8", "surrogateescape"), language) for each, path in headers.files.items()
    }
    draft = drafted(source.with_headers(read.values()), entries)
    if headers.missing:
        names = ", ".join(headers.missing)
        note = f"not found next to {file.name}: {names}; if the compiler does not find a file, put it into this folder"
        draft = replace(draft, notes=(*draft.notes, note))
    macros, exported = set(draft.macros), [*draft.entries] if language != "c" else []
    if language == "cuda":
        plain = Counter(each.name for each in source.functions if not each.template and not source.namespace(each))
        exported += [name for name, count in plain.items() if count == 1 and name not in exported]
    declared = [each for each in exported if lacks_c_linkage(each, (source, *read.values()))]
    guarded = {each: found.compilable(macros, declared) for each, found in read.items()}
    changed = {each: written for each, written in guarded.items() if written != read[each].text}
    return draft, {**changed, name: source.compilable(macros, declared) + draft.wrapper}


def _name(file: Path) -> str:
    """Return the source's file name in its family, with ``_`` for invalid characters. It is never reference.py."""
    if file.name == "reference.py":
        return "kernel.py"
    stem = re.sub(r"[^A-Za-z0-9_.+-]+", "_", file.stem)
    return f"{stem if stem[0].isalnum() else f'kernel{stem}'}{file.suffix}"
