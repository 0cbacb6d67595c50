"""A text as a listing: its lines, highlighted where it is a program."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, takewhile

from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

MOST_LINES, MOST_CHARACTERS = 2000, 150_000
"""Of a longer text a page shows the beginning; the whole is a link away."""

LANGUAGES = {"cpu": "c", "cuda": "cuda", "replay": "text", "estimate": "cuda"}
"""What a kernel's source is written in, by kind of device."""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Lines of escaped markup, one for each line of the text; `cut` is how many lines of it are left out."""

    lines: tuple[Markup, ...]
    cut: int = 0


@lru_cache(maxsize=64)
def listing(text: str, language: str = "text") -> Listing:
    """A listing of a text; an artefact never changes, so the latest ones are remembered."""
    every = text.splitlines()
    shown = beginning(every)
    body = "\n".join(shown)
    marked = _marked(body, language) if language != "text" else [escape(line) for line in shown]
    return Listing(lines=tuple(marked), cut=len(every) - len(shown))


def beginning(lines: list[str]) -> list[str]:
    """As many lines as a page shows; a single endless line is cut short itself."""
    shortened = [line if len(line) <= MOST_CHARACTERS else line[:MOST_CHARACTERS] + " …" for line in lines[:MOST_LINES]]
    lengths = accumulate(len(line) + 1 for line in shortened)
    kept = takewhile(lambda length: length <= MOST_CHARACTERS + 3, lengths)
    return shortened[: sum(1 for _ in kept)]


def _marked(body: str, language: str) -> list[Markup]:
    """Lines of spans with classes. Pygments escapes the text, and closes what it opens on each line."""
    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    html = highlight(body, lexer, HtmlFormatter(nowrap=True, classprefix="k-"))
    return [Markup(line) for line in html.split("\n")][: body.count("\n") + 1]
