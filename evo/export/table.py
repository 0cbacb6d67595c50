"""Tables of Markdown."""

from collections.abc import Sequence


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table of Markdown, every cell on one line."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
