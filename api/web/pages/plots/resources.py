"""Plots of the resource use of kernels against their time."""

from collections.abc import Sequence

from api.web.pages.plots.figure import Figure, Plot, Table, config_label, label, nothing, time_axis
from api.web.pages.plots.slices import EVEN, FASTEST, drawn_note
from db.queries.landscape import Landscape, Point
from evo.text.wording import outcome_text, percent_text, significant, time_text

FIRST = ("registers", "occupancy", "shared_memory_bytes", "spill_bytes", "stack_bytes")


def resources_against_time(landscape: Landscape) -> Plot:
    """Plot one figure per resource that the compiler reports: resource use against time."""
    points = {point.number: point for point in [*landscape.even(EVEN), *landscape.fastest(FASTEST)] if point.resources}
    shown = list(points.values())
    if not shown:
        return nothing("No registers, shared memory or occupancy are known: this device's compiler reports none.")
    names = sorted({name for point in shown for name in point.resources}, key=_order)
    axis = time_axis([point.time_us for point in shown])
    best = min(shown, key=lambda point: point.time_us)
    rows = tuple(_row(name, shown, best) for name in names)
    used = ", ".join(
        f"{outcome_text(name)} {_text(name, best.resources[name])}" for name in names if name in best.resources
    )
    return Plot(
        summary=f"The fastest trial, number {best.number}, uses {used}.",
        figures=tuple(_figure(name, shown, axis) for name in names if _varies(name, shown)),
        table=Table(head=("Resource", "Least", "Most", f"Trial {best.number}"), rows=rows),
        note=f"Larger dots have a higher occupancy, if the occupancy is known. {drawn_note(landscape)}",
    )


def _order(name: str) -> tuple[int, str]:
    return FIRST.index(name) if name in FIRST else len(FIRST), name


def _varies(name: str, points: Sequence[Point]) -> bool:
    return name in FIRST[:3] or len({point.resources.get(name) for point in points}) > 1


def _text(name: str, value: float) -> str:
    return percent_text(value) if name == "occupancy" else significant(value)


def _figure(name: str, points: Sequence[Point], axis: dict[str, object]) -> Figure:
    drawn = [point for point in points if name in point.resources]
    occupancy = [point.resources.get("occupancy") for point in drawn]
    marker: dict[str, object] = {"color": "@accent", "size": 6, "opacity": 0.5}
    if name != "occupancy" and all(value is not None for value in occupancy) and len(set(occupancy)) > 1:
        marker |= {"color": occupancy, "colorscale": "@scale-up", "cmin": 0, "cmax": 1, "opacity": 0.75}
        marker["size"] = [4 + 8 * (value or 0.0) for value in occupancy]
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": [point.resources[name] for point in drawn],
        "y": [point.time_us for point in drawn],
        "customdata": [point.number for point in drawn],
        "text": [
            f"trial {point.number}: {time_text(point.time_us)}, {label(outcome_text(name))} "
            f"{_text(name, point.resources[name])}<br>{config_label(point.config)}"
            for point in drawn
        ],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": marker,
    }
    x: dict[str, object] = {"title": ""}
    if name == "occupancy":
        x |= {"tickformat": ".0%", "range": [0, 1.02]}
    return Figure(
        data=(trace,),
        layout={"xaxis": x, "yaxis": {**axis, "title": ""}, "showlegend": False},
        title=outcome_text(name),
        height=300,
    )


def _row(name: str, points: Sequence[Point], best: Point) -> tuple[str, str, str, str]:
    values = [point.resources[name] for point in points if name in point.resources]
    mine = best.resources.get(name)
    return (
        outcome_text(name),
        _text(name, min(values)),
        _text(name, max(values)),
        "–" if mine is None else _text(name, mine),
    )
