"""Where commands print: text for people on a console, or JSON for scripts."""

import json
import sys
from typing import TYPE_CHECKING, Any

from evo.visible import visible, visible_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table


_GAP = 3
"""Between two columns of a table."""

_FOLDED = 16
"""A longer word, such as a whole config, goes on in the next line without harm."""


def console(*, stderr: bool = False) -> "Console":
    """Standard output or error as Rich sees it; tables and prose do not wrap where it is not a terminal.

    Control characters in what is printed are shown as escapes (`evo.visible`): only Rich's own styles act.
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
    return Screen(stderr=stderr, highlight=False, soft_wrap=plain, width=200 if plain else None)


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
                yield f"[bold]{self.title}[/]"
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
        """Text in it is no markup."""

        def add_row(self, *cells: "RenderableType | None", **style: Any) -> None:
            super().add_row(*map(_literal, cells), **style)

    grid = Facts.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    return grid


def print_json(value: Any) -> None:
    """A value as indented JSON; dataclasses, dates and paths included."""
    from pydantic_core import to_jsonable_python

    escaped = not (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(to_jsonable_python(value), indent=2, ensure_ascii=escaped)
    sys.stdout.write(visible_json(text) + "\n")
