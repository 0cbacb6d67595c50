"""Headers of a source that are copied with it into a family's folder."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_INCLUDE = re.compile(
    r"^[ \t]*(?:#|%:)[ \t]*(?:include|include_next|import)[ \t]*(?:\"([^\"\n]+)\"|<([^>\n]+)>)", re.MULTILINE
)
_COMMENTS = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")
"""A part of a file's name in a family, as `templates.bundle` accepts it."""


@dataclass(frozen=True, kw_only=True)
class Headers:
    """Headers next to a source.

    Attributes:
        folder: the source's folder in the family; empty if no header is above the source.
        files: each header by its path in the family.
        missing: names in quotes that no file next to the source has; some may be headers of the compiler.
    """

    folder: str = ""
    files: Mapping[str, Path] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


def headers_of(file: Path, text: str) -> Headers:
    """Find the headers that a source and its headers include by a path relative to themselves.

    The folders keep their places relative to each other, so that no directive has to change.
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
    """Return the folder above the source and its headers; the source's own if a family cannot hold those between."""
    root = Path(os.path.commonpath([folder, *(each.parent for each in found)]))
    return root if _fits(folder, root) else folder


def _fits(path: Path, root: Path) -> bool:
    return path.is_relative_to(root) and all(map(_PART.fullmatch, path.relative_to(root).parts))


def _candidates(including: Path, source: Path, name: str) -> list[Path]:
    """Return where a relative name may lie: next to the file that includes it, then next to the source."""
    if Path(name).is_absolute():
        return []
    return [Path(os.path.normpath(each.parent / name)) for each in (including, source)]
