"""Where commands print: text for people on a console, or JSON for scripts."""

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table


_GAP = 3
"""Between two columns of a table."""

_FOLDED = 16
"""A longer word, such as a whole config, goes on in the next line without harm."""


def console() -> "Console":
    """Standard output as Rich sees it; tables and prose do not wrap where it is not a terminal."""
    from rich.console import Console

    class Heard(Console):
        """Ends the program in our way when nobody reads any more; Rich's own status is that of a search in vain."""

        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704 — within Rich's handler

    plain = not sys.stdout.isatty()
    return Heard(highlight=False, soft_wrap=plain, width=200 if plain else None)


def table(*columns: str, title: str | None = None) -> "Table":
    """An empty table; a column whose name starts with ``>`` is a figure and stands right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    class Rows(Table):
        """Where not even single words fit beside each other, each row is a list of its cells."""

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


def facts() -> "Table":
    """An empty grid of names and what there is to say; long values go on below."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    return grid


def print_json(value: Any) -> None:
    """A value as indented JSON; dataclasses, dates and paths included."""
    from pydantic_core import to_jsonable_python

    escaped = not (sys.stdout.encoding or "").lower().startswith("utf")
    sys.stdout.write(json.dumps(to_jsonable_python(value), indent=2, ensure_ascii=escaped) + "\n")
