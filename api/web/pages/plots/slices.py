"""Slice and contour plots: times against the values of one or two tunables."""

from collections.abc import Sequence
from statistics import median

from api.web.pages.plots.figure import Figure, Plot, Table, label, nothing, time_axis
from db.queries.landscape import Landscape, Point
from evo.errors import InvalidInput
from evo.text.suggestion import unknown
from evo.text.wording import time_text, value_text
from evo.trial import Value

EVEN, FASTEST = 1200, 300
PER_SLICE = 700


def slices(landscape: Landscape) -> Plot:
    """Plot one figure per tunable with several values: times by value, and the best time of each value."""
    points = landscape.even(EVEN)
    fastest = landscape.fastest(FASTEST)
    names = varied(points)
    if not names:
        return nothing("Slice plots need measured trials with different settings.")
    every = {point.number: point for point in [*points, *fastest]}
    shown = list(every.values())
    axis = time_axis([point.time_us for point in shown])
    figures = tuple(_slice(name, shown, axis) for name in names)
    rows = tuple(row for name in names for row in _rows(name, shown))
    return Plot(
        summary="Fastest by tunable: " + ", ".join(f"{name} {_best_value(name, shown)}" for name in names) + ".",
        figures=figures,
        table=Table(head=("Tunable", "Value", "Trials drawn", "Best", "Median"), rows=rows),
        note=f"Each dot is a trial. The line connects the best times of the values. {drawn_note(landscape)}",
    )


def contour(landscape: Landscape, x: str | None, y: str | None) -> Plot:
    """Plot the best time for each pair of values of two tunables. A tunable that is None is chosen automatically.

    Raises:
        InvalidInput: `x` or `y` is not the name of a tunable with several values.
    """
    points = {point.number: point for point in [*landscape.even(EVEN), *landscape.fastest(FASTEST)]}
    shown = list(points.values())
    names = varied(shown)
    if len(names) < 2:
        return nothing("A contour plot needs two tunables with different values among the measured trials.")
    x = _valid_name("x", x, names, next(name for name in names if name != y))
    y = _valid_name("y", y, names, next(name for name in names if name != x))
    columns, lines = values_of(x, shown), values_of(y, shown)
    best = _best_of_pairs(x, y, shown)
    grid = [[best.get((column, line)) for column in columns] for line in lines]
    times_us = [time_us for time_us in best.values() if time_us]
    (best_x, best_y), least = min(best.items(), key=lambda item: item[1])
    trace = {
        "type": "heatmap",
        "x": [label(value_text(value)) for value in columns],
        "y": [label(value_text(value)) for value in lines],
        "z": grid,
        "text": [["" if time_us is None else time_text(time_us) for time_us in line] for line in grid],
        "texttemplate": "%{text}" if len(columns) * len(lines) <= 80 else "",
        "hovertemplate": f"{label(x)}=%{{x}}, {label(y)}=%{{y}}: %{{text}}<extra></extra>",
        "hoverongaps": False,
        "colorscale": "@scale",
        "xgap": 2,
        "ygap": 2,
        "zmin": min(times_us),
        "zmax": min(max(times_us), 4 * min(times_us)),
        "showscale": False,
    }
    layout = {
        "xaxis": {"title": label(x), "type": "category"},
        "yaxis": {"title": label(y), "type": "category"},
    }
    rows = tuple(
        (value_text(line), *("–" if time_us is None else time_text(time_us) for time_us in row))
        for line, row in zip(lines, grid, strict=True)
    )
    return Plot(
        summary=f"Best at {x}={value_text(best_x)}, {y}={value_text(best_y)}: {time_text(least)}.",
        figures=(Figure(data=(trace,), layout=layout, height=420),),
        table=Table(head=(f"{y} by {x}", *map(value_text, columns)), rows=rows),
        note=f"Each cell shows the best time of its pair of values. {drawn_note(landscape)}",
        choices=tuple(names),
        chosen=(x, y),
    )


def varied(points: Sequence[Point]) -> list[str]:
    """Return the tunables that have several values in the points, in the order of the space."""
    if not points:
        return []
    return [name for name in points[0].config if len({point.config.get(name) for point in points}) > 1]


def values_of(name: str, points: Sequence[Point]) -> list[Value]:
    """Return all values of a tunable in the points, numbers in ascending order."""
    found = {point.config[name] for point in points if name in point.config}
    return sorted(
        found, key=lambda value: (isinstance(value, str), value if not isinstance(value, str) else 0, value_text(value))
    )


def drawn_note(landscape: Landscape) -> str:
    """Return a note that not all trials are drawn. The result is empty if all trials are drawn."""
    if landscape.extent() <= EVEN:
        return ""
    return "The search is long, so only the fastest trials and an even sample of the other trials are drawn."


def _valid_name(field: str, name: str | None, names: Sequence[str], otherwise: str) -> str:
    if name is not None and name not in names:
        raise InvalidInput(field, unknown(name, names, "varied tunables"))
    return name or otherwise


def _best_of_pairs(x: str, y: str, points: Sequence[Point]) -> dict[tuple[Value, Value], float]:
    best: dict[tuple[Value, Value], float] = {}
    for point in points:
        pair = point.config[x], point.config[y]
        best[pair] = min(point.time_us, best.get(pair, point.time_us))
    return best


def _slice(name: str, points: Sequence[Point], axis: dict[str, object]) -> Figure:
    values = values_of(name, points)
    texts = [label(value_text(value)) for value in values]
    drawn = points[:: -(-len(points) // PER_SLICE)]
    best = [min(point.time_us for point in points if point.config.get(name) == value) for value in values]
    dots = {
        "type": "scatter",
        "mode": "markers",
        "x": [label(value_text(point.config[name])) for point in drawn],
        "y": [point.time_us for point in drawn],
        "customdata": [point.number for point in drawn],
        "text": [f"trial {point.number}: {time_text(point.time_us)}" for point in drawn],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"color": "@accent", "size": 5, "opacity": 0.3},
    }
    line = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": texts,
        "y": best,
        "text": [time_text(time_us) for time_us in best],
        "hovertemplate": "best with %{x}: %{text}<extra></extra>",
        "line": {"color": "@good", "width": 2},
        "marker": {"symbol": "diamond", "size": 8, "color": "@good"},
    }
    layout = {
        "xaxis": {"type": "category", "categoryorder": "array", "categoryarray": texts, "title": ""},
        "yaxis": {**axis, "title": ""},
        "showlegend": False,
    }
    return Figure(data=(dots, line), layout=layout, title=name, height=240)


def _rows(name: str, points: Sequence[Point]) -> list[tuple[str, str, int, str, str]]:
    rows = []
    for value in values_of(name, points):
        times_us = [point.time_us for point in points if point.config.get(name) == value]
        rows.append((name, value_text(value), len(times_us), time_text(min(times_us)), time_text(median(times_us))))
    return rows


def _best_value(name: str, points: Sequence[Point]) -> str:
    return value_text(min(points, key=lambda point: point.time_us).config[name])
