"""Markdown tables."""

import re
from collections.abc import Sequence

from evo.text.visible import visible

_CODE = re.compile(r"(`[^`\n]+`)")
_MARKUP = re.compile(r"([<\[])")


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a Markdown table. Every cell is on one line."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def plain(text: str) -> str:
    """Escape ``<`` and ``[``, so that Markdown contains no HTML and no links. Text between backticks is not changed."""
    parts = _CODE.split(visible(text))
    return "".join(part if index % 2 else _MARKUP.sub(r"\\\1", part) for index, part in enumerate(parts))


def _cell(text: str) -> str:
    return " ".join(plain(text).replace("|", "\\|").split())
