"""Data of the parallel coordinates plot, which a script of the page draws.

Plotly's own parallel coordinates plot needs `eval`, which the content security policy forbids.
"""

from dataclasses import dataclass

from api.web.pages.plots.slices import values_of, varied
from db.queries.landscape import Landscape
from evo.text.wording import time_text, value_text

EVEN, FASTEST = 500, 200


@dataclass(frozen=True, kw_only=True)
class Coordinate:
    """One axis: a tunable and its values in ascending order, formatted as in leaderboard filters."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Line:
    """One trial: its position on each axis, and its rank by speed from 0 (slowest in the plot) to 1 (fastest)."""

    number: int
    places: tuple[int, ...]
    rank: float
    time: str


@dataclass(frozen=True, kw_only=True)
class Parallel:
    """All axes and lines of the plot. The slowest line comes first, so that the fastest is drawn on top."""

    summary: str
    axes: tuple[Coordinate, ...] = ()
    lines: tuple[Line, ...] = ()
    fastest: str = ""
    slowest: str = ""


def parallel_coordinates(landscape: Landscape) -> Parallel:
    """Return the measured trials on axes of the tunables that have several values. Colours follow ranks, not times."""
    points = {point.number: point for point in [*landscape.even(EVEN), *landscape.fastest(FASTEST)]}
    shown = sorted(points.values(), key=lambda point: (point.time_us, point.number), reverse=True)
    names = varied(shown)
    if not names:
        return Parallel(summary="Parallel coordinates need measured trials with different settings.")
    values = {name: values_of(name, shown) for name in names}
    last = max(1, len(shown) - 1)
    lines = tuple(
        Line(
            number=point.number,
            places=tuple(values[name].index(point.config[name]) for name in names),
            rank=round(index / last, 3),
            time=time_text(point.time_us),
        )
        for index, point in enumerate(shown)
    )
    return Parallel(
        summary=f"{len(shown)} trials over {len(names)} tunables; each line is one trial, the fastest on top.",
        axes=tuple(Coordinate(name=name, values=tuple(map(value_text, values[name]))) for name in names),
        lines=lines,
        fastest=time_text(shown[-1].time_us),
        slowest=time_text(shown[0].time_us),
    )
