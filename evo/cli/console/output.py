"""Prints the output of commands, as text for people or as JSON for scripts."""

import json
import sys
from typing import TYPE_CHECKING, Any

from evo.text.visible import one_line, visible, visible_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.segment import Segment
    from rich.table import Table
    from rich.text import Text


_GAP = 3
"""Number of spaces between two columns of a table."""

_WIDTH, _HEIGHT = 200, 50
"""Assumed size of an output that is not a terminal."""

_PADDING = 2
"""Number of spaces on the right of each column of `facts`."""

_LEAST_VALUE = 8
"""Minimum width of a value next to its name, in characters. With less space, the value is printed below the name."""

_FOLDED = 16
"""A word of more characters than this, such as a whole config, may continue on the next line."""


def console(*, stderr: bool = False) -> "Console":
    """Return a Rich console for standard output or standard error. Lines are wrapped only on a terminal, and the rows
    of tables end with blanks only there.

    Text is printed literally. Rich's markup and emoji names have no effect, and control characters are shown as escapes
    (`evo.text.visible`). Only a `rich.text.Text` can have styles.
    """
    from rich.console import Console
    from rich.segment import Segment
    from rich.table import Table

    plain = not (sys.stderr if stderr else sys.stdout).isatty()

    class Screen(Console):
        """A Rich console that raises BrokenPipeError on a closed pipe. Rich would end the process with status 1, which
        kernel-evo uses for a failed search.
        """

        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704 — within Rich's handler

        def render(self, renderable: "RenderableType", options: "ConsoleOptions | None" = None) -> "Iterable[Segment]":
            segments = super().render(renderable, options)
            for segment in _unpadded(segments) if plain and isinstance(renderable, Table) else segments:
                yield segment if segment.control else Segment(visible(segment.text), segment.style)

    width, height = (_WIDTH, _HEIGHT) if plain else (None, None)  # Rich uses a width only if a height is given
    return Screen(
        stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=plain, width=width, height=height
    )


def _unpadded(segments: "Iterable[Segment]") -> "Iterator[Segment]":
    """Yield the lines of a table without the blanks at their ends."""
    from rich.segment import Segment

    for line in Segment.split_lines(segments):
        while line and not line[-1].text.rstrip(" "):
            line.pop()
        if line:
            last = line.pop()
            line.append(Segment(last.text.rstrip(" "), last.style))
        yield from (*line, Segment.line())


def written(path: object, what: str = "") -> str:
    """Return the line that reports a written file or folder."""
    return f"wrote {one_line(str(path))}{what}"


def styled(*parts: "str | tuple[str, str]") -> "Text":
    """Return one Rich text made of plain strings and of pairs of string and style, e.g. ``("wrong", "bold red")``."""
    from rich.text import Text

    return Text.assemble(*parts)


def table(*columns: str, title: str | None = None) -> "Table":
    """Return an empty table. Columns whose name starts with ``>`` are aligned right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    class Rows(Table):
        """A table that prints each row as a list of names and values if the output is too narrow for the columns."""

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
    """Return the smallest column width that breaks no word of at most `_FOLDED` characters."""
    words = [len(word) for cell in cells for word in str(cell).split()]
    return min(max(words, default=0), _FOLDED)


def _literal(cell: "RenderableType | None") -> "RenderableType | None":
    """Return a string cell as a `Text` that is printed without markup, and with control characters escaped.

    All other cells, including None, are returned unchanged.
    """
    from rich.text import Text

    return Text(visible(cell)) if isinstance(cell, str) else cell


def facts() -> "Table":
    """Return an empty grid of names and values. Long values wrap."""
    from rich.table import Table

    class Facts(Table):
        """A grid that prints the values below their names if the output is too narrow."""

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
    """Print a value as indented JSON. Dataclasses, dates and paths are supported."""
    from pydantic_core import to_jsonable_python

    escaped = not (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(to_jsonable_python(value), indent=2, ensure_ascii=escaped)
    sys.stdout.write(visible_json(text) + "\n")
