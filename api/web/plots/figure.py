"""What a plot is: traces and layout for Plotly, and words for whoever cannot see it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, TypeAlias

from evo.text.wording import time_text, value_text
from evo.trial import Config

Trace: TypeAlias = Mapping[str, Any]
"""A Plotly trace. A colour ``@accent`` is the page's own of that name, in light and in dark."""

ROOM = 1.08
"""Above and below the times of an axis, as a factor."""

Cell: TypeAlias = str | int | float | None


@dataclass(frozen=True, kw_only=True)
class Table:
    """The figures of a plot, for reading."""

    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One drawing. `title` is empty where the plot has only one."""

    data: tuple[Trace, ...]
    layout: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    height: int = 360


@dataclass(frozen=True, kw_only=True)
class Plot:
    """One or more figures; none where there is nothing to draw yet, and `summary` then says why.

    Attributes:
        choices: names that a reader may choose from, and `chosen` those that this plot is of.
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
    """Text for Plotly, which reads a little HTML: nothing that others typed may be markup."""
    return escape(text, quote=False)


def config_label(config: Config) -> str:
    """A config for the box at the pointer, a few settings a line."""
    settings = [f"{label(name)}={label(value_text(value))}" for name, value in config.items()]
    return "<br>".join(", ".join(settings[at : at + 4]) for at in range(0, len(settings), 4))


def time_axis(times_us: Sequence[float], title: str = "Time") -> dict[str, Any]:
    """A logarithmic axis of times, whose ticks read as times do everywhere else."""
    low, high = min(times_us) / ROOM, max(times_us) * ROOM
    ticks = _ticks(low, high)
    return {
        "title": title,
        "type": "log",
        "range": [math.log10(low), math.log10(high)],
        "tickvals": ticks,
        "ticktext": [time_text(tick) for tick in ticks],
    }


def _ticks(low: float, high: float) -> list[float]:
    """Round times inside the range, from coarse to fine until there are a few."""
    for mantissas in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8), [place / 10 for place in range(10, 100)]):
        found = [
            mantissa * 10.0**power
            for power in range(-4, 10)
            for mantissa in mantissas
            if low <= mantissa * 10.0**power <= high
        ]
        if len(found) >= 3:
            break
    return found[:: -(-len(found) // 8)] if found else [low]
