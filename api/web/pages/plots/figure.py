"""Data of a plot: traces and layout for Plotly, a summary, and a table."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, TypeAlias

from evo.text.wording import time_text, value_text
from evo.trial import Config

Trace: TypeAlias = Mapping[str, Any]
"""A Plotly trace. The page replaces names of colours, such as ``@accent``, with colours of its light or dark style."""

ROOM = 1.08
"""A time axis ends at this multiple of the largest time, and begins at the smallest time divided by this number."""

Cell: TypeAlias = str | int | float | None


@dataclass(frozen=True, kw_only=True)
class Table:
    """The values of a plot as a table."""

    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One drawing. `title` is empty if the plot has only one drawing."""

    data: tuple[Trace, ...]
    layout: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    height: int = 360


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A plot with its figures. If there are no figures, `summary` states the reason.

    Attributes:
        table: the drawn values. None if there is nothing to draw.
        choices: names of tunables that the reader can choose.
        chosen: names of the tunables that this plot shows.
    """

    summary: str
    figures: tuple[Figure, ...] = ()
    table: Table | None = None
    note: str = ""
    choices: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()


def nothing(why: str) -> Plot:
    return Plot(summary=why)


def label(text: str) -> str:
    """Return the text escaped for Plotly, which interprets some HTML."""
    return escape(text, quote=False)


def config_label(config: Config) -> str:
    """Return a config as text for the hover box, with four settings per line."""
    settings = [f"{label(name)}={label(value_text(value))}" for name, value in config.items()]
    return "<br>".join(", ".join(settings[at : at + 4]) for at in range(0, len(settings), 4))


def time_axis(times_us: Sequence[float]) -> dict[str, Any]:
    """Return a logarithmic time axis with ticks in readable units."""
    low, high = min(times_us) / ROOM, max(times_us) * ROOM
    ticks = _ticks(low, high)
    return {
        "title": "Time",
        "type": "log",
        "range": [math.log10(low), math.log10(high)],
        "tickvals": ticks,
        "ticktext": [time_text(tick) for tick in ticks],
    }


def _ticks(low: float, high: float) -> list[float]:
    """Return round times inside the range, in steps that give at least three ticks if possible."""
    for mantissas in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8), [index / 10 for index in range(10, 100)]):
        found = [
            mantissa * 10.0**power
            for power in range(-4, 10)
            for mantissa in mantissas
            if low <= mantissa * 10.0**power <= high
        ]
        if len(found) >= 3:
            break
    return found[:: -(-len(found) // 8)] if found else [low]
