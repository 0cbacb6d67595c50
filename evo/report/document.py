"""Document model of a report, independent of its output format (Markdown or HTML)."""

from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True)
class Text:
    """A plain paragraph; `strong` for warnings."""

    words: str
    strong: bool = False


@dataclass(frozen=True)
class Listed:
    """A table; columns from index `figures` on hold figures, which a page aligns right."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    figures: int = 99


@dataclass(frozen=True)
class Code:
    """Text to be copied literally."""

    text: str


@dataclass(frozen=True)
class Picture:
    """A drawing of a page; formats without drawings show `words` instead."""

    name: Literal["progress", "samples", "importances", "ablation"]
    words: str


Block: TypeAlias = Text | Listed | Code | Picture


@dataclass(frozen=True)
class Section:
    """A heading and its blocks."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """A report."""

    title: str
    sections: tuple[Section, ...]
