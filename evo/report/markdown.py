"""Render a report as Markdown."""

from evo.export.table import plain, table
from evo.report.document import Block, Code, Document, Listed, Picture, Text
from evo.text.visible import visible


def to_markdown(document: Document) -> str:
    """Return the whole text; pictures are replaced by their words."""
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
