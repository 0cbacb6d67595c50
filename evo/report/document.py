"""What a report consists of, before it is Markdown or a page."""

from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True)
class Text:
    """A paragraph, plain; `strong` where nobody may miss it."""

    words: str
    strong: bool = False


@dataclass(frozen=True)
class Listed:
    """A table; columns from `figures` on hold figures, which a page puts below each other by their ends."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    figures: int = 99


@dataclass(frozen=True)
class Code:
    """Text to be copied as it stands."""

    text: str


@dataclass(frozen=True)
class Picture:
    """Where a page draws something; who cannot draw says `words` in its place."""

    name: Literal["progress", "samples", "importances", "ablation"]
    words: str


Block: TypeAlias = Text | Listed | Code | Picture


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """A report."""

    title: str
    sections: tuple[Section, ...]
