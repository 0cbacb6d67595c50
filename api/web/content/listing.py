"""Splits text into lines, with syntax highlighting for source code."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, takewhile

from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from evo.device.kind import Sources

MOST_LINES, MOST_CHARACTERS = 2000, 150_000
"""Maximum numbers of lines and characters of a file on a page. The whole file can be downloaded."""

LANGUAGES: Mapping[Sources, str] = {"c": "c", "cuda": "cuda", "own": "text"}
"""Name of the syntax highlighter, by the kind of sources that a device kind compiles."""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Lines of escaped HTML. `cut` is the number of lines that were left out."""

    lines: tuple[Markup, ...]
    cut: int = 0


@lru_cache(maxsize=64)
def listing(text: str, language: str = "text") -> Listing:
    """Return the first lines of a text as HTML. The latest results are cached, because artefacts never change."""
    every = text.splitlines()
    shown = beginning(every)
    body = "\n".join(shown)
    marked = _marked(body, language) if language != "text" else [escape(line) for line in shown]
    return Listing(lines=tuple(marked), cut=len(every) - len(shown))


def beginning(lines: list[str]) -> list[str]:
    """Return the first lines of a text, up to the size limit. A very long line is cut."""
    shortened = [line if len(line) <= MOST_CHARACTERS else line[:MOST_CHARACTERS] + " …" for line in lines[:MOST_LINES]]
    lengths = accumulate(len(line) + 1 for line in shortened)
    kept = takewhile(lambda length: length <= MOST_CHARACTERS + 3, lengths)
    return shortened[: sum(1 for _ in kept)]


def _marked(body: str, language: str) -> list[Markup]:
    """Return the lines of a text as HTML, with syntax highlighting.

    Pygments escapes the text and closes all tags in each line.
    """
    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    html = highlight(body, lexer, HtmlFormatter(nowrap=True, classprefix="k-"))
    return [Markup(line) for line in html.split("\n")][: body.count("\n") + 1]
