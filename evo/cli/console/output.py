"""Where commands print: text for people on a console, or JSON for scripts."""

import json
import sys
from typing import TYPE_CHECKING, Any

from evo.text.visible import visible, visible_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table
    from rich.text import Text


_GAP = 3
"""Between two columns of a table."""

_WIDTH, _HEIGHT = 200, 50
"""Of what is no terminal."""

_PADDING = 2
"""On the right of each column of facts."""

_LEAST_VALUE = 8
"""Columns that a value needs next to its name; where there are fewer it goes below."""

_FOLDED = 16
"""A longer word, such as a whole config, goes on in the next line without harm."""


def console(*, stderr: bool = False) -> "Console":
    """Standard output or error as Rich sees it; tables and prose do not wrap where it is not a terminal.

    Text is printed as it is: square brackets and names between colons mean nothing, control characters are shown as
    escapes (`evo.text.visible`), and only the styles of a `rich.text.Text` act.
    """
    from rich.console import Console
    from rich.segment import Segment

    class Screen(Console):
        """Ends the program in our way when nobody reads any more; Rich's own status is that of a search in vain."""

        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704 — within Rich's handler

        def render(self, renderable: "RenderableType", options: "ConsoleOptions | None" = None) -> "Iterable[Segment]":
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(visible(segment.text), segment.style)

    plain = not (sys.stderr if stderr else sys.stdout).isatty()
    width, height = (_WIDTH, _HEIGHT) if plain else (None, None)  # Rich believes a width only with a height
    return Screen(
        stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=plain, width=width, height=height
    )


def styled(*parts: "str | tuple[str, str]") -> "Text":
    """Plain parts, and parts with a style, e.g. ``("wrong", "bold red")``."""
    from rich.text import Text

    return Text.assemble(*parts)


def table(*columns: str, title: str | None = None) -> "Table":
    """An empty table; a column whose name starts with ``>`` is a figure and stands right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    class Rows(Table):
        """Where not even single words fit beside each other, each row is a list of its cells."""

        def add_row(self, *cells: "RenderableType | None", **style: Any) -> None:
            super().add_row(*map(_literal, cells), **style)

        def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
            columns = [(each.header, *each.cells) for each in self.columns]
            if sum(map(_least_width, columns)) + _GAP * (len(columns) - 1) <= options.max_width:
                yield from super().__rich_console__(console, options)
                return
            if self.title:
                yield styled((str(self.title), "bold"))
            for cells in zip(*(column.cells for column in self.columns), strict=True):
                card = facts()
                for column, cell in zip(self.columns, cells, strict=True):
                    if str(cell):
                        card.add_row(column.header, cell)
                yield card
                yield ""

    made = Rows(box=SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False)
    made.show_edge = False
    for column in columns:
        made.add_column(
            column.removeprefix(">"), justify="right" if column.startswith(">") else "left", overflow="fold"
        )
    return made


def _least_width(cells: "Iterable[object]") -> int:
    """Of a column in which no word is broken that people read as one."""
    words = [len(word) for cell in cells for word in str(cell).split()]
    return min(max(words, default=0), _FOLDED)


def _literal(cell: "RenderableType | None") -> "RenderableType | None":
    """Text as it is: square brackets in it are no markup, and its width is that of what is shown."""
    from rich.text import Text

    return Text(visible(cell)) if isinstance(cell, str) else cell


def facts() -> "Table":
    """An empty grid of names and what there is to say; long values go on below."""
    from rich.table import Table

    class Facts(Table):
        """Text in it is no markup. Where there is no room next to the names, the values go below them."""

        def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
            names, *values = (list(column.cells) for column in self.columns)
            longest = max((len(str(name)) for name in names), default=0)
            if longest + _PADDING + _LEAST_VALUE <= options.max_width:
                yield from super().__rich_console__(console, options)
                return
            for name, *found in zip(names, *values, strict=True):
                yield styled((str(name), "dim"))
                yield from found

        def add_row(self, *cells: "RenderableType | None", **style: Any) -> None:
            super().add_row(*map(_literal, cells), **style)

    grid = Facts.grid(padding=(0, _PADDING))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    return grid


def print_json(value: Any) -> None:
    """A value as indented JSON; dataclasses, dates and paths included."""
    from pydantic_core import to_jsonable_python

    escaped = not (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(to_jsonable_python(value), indent=2, ensure_ascii=escaped)
    sys.stdout.write(visible_json(text) + "\n")
