"""Document model of a report, independent of the output format, and its rendering as Markdown."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from evo.export.table import plain, table
from evo.text.visible import visible


@dataclass(frozen=True)
class Text:
    """A paragraph of text. `strong` is True for warnings."""

    words: str
    strong: bool = False


@dataclass(frozen=True)
class Listed:
    """A table. Columns from the index `figures` on contain numbers, which pages align to the right.

    The default of `figures` is larger than any number of columns: no column contains numbers.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    figures: int = 99


@dataclass(frozen=True)
class Code:
    """Text in a fixed-width font, e.g. a command to copy."""

    text: str


@dataclass(frozen=True)
class Picture:
    """A chart. Formats without charts show the text `words` instead."""

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
    """A report: its title and its sections."""

    title: str
    sections: tuple[Section, ...]


def to_markdown(document: Document) -> str:
    """Return the document as Markdown, with the text of each chart instead of the chart."""
    parts = [f"# {document.title}"]
    for section in document.sections:
        parts += [f"## {section.title}", *(_block(block) for block in section.blocks)]
    return visible("\n\n".join(parts) + "\n")


def _block(block: Block) -> str:
    match block:
        case Text(words=words, strong=strong):
            return f"**{plain(words)}**" if strong else plain(words)
        case Listed(head=head, rows=rows):
            return table(head, rows)
        case Code(text=text):
            return f"```\n{text}\n```"
        case Picture(words=words):
            return plain(words)
