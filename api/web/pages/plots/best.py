"""Best-so-far plot, with measured trials, the best time up to each trial, and reference lines."""

from api.web.pages.plots.figure import Figure, Plot, Table, Trace, label, nothing, time_axis
from db.queries.landscape import Landscape
from evo.messages.view import SearchView
from evo.text.wording import bound_text, count_text, time_text

DOTS = 2000
ROOFLINE_SHOWN = 0.02
"""Minimum ratio of the roofline to the best time. A lower roofline is not drawn, to keep the plot readable."""


def best_so_far(landscape: Landscape, search: SearchView) -> Plot:
    """Plot time against trial number, with baselines, incumbent, roofline and promotions."""
    records = landscape.records()
    if not records:
        return nothing("Nothing is measured yet.")
    dots = landscape.times(DOTS)
    last = max(search.asked - 1, records[-1][0])
    lines = levels(search)
    times_us = [time_us for _, time_us in dots] + [time_us for _, time_us in records] + list(lines.values())
    steps = [*records, (last, records[-1][1])]
    traces: list[Trace] = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "estimated" if search.estimated else "measured",
            "x": [number for number, _ in dots],
            "y": [time_us for _, time_us in dots],
            "customdata": [number for number, _ in dots],
            "text": [time_text(time_us) for _, time_us in dots],
            "hovertemplate": "trial %{x}: %{text}<extra></extra>",
            "marker": {"color": "@accent", "size": 6, "opacity": 0.75},
        },
        {
            "type": "scatter",
            "mode": "lines",
            "name": "best so far",
            "x": [number for number, _ in steps],
            "y": [time_us for _, time_us in steps],
            "line": {"shape": "hv", "color": "@accent", "width": 2.5},
            "text": [time_text(time_us) for _, time_us in steps],
            "hovertemplate": "best from trial %{x}: %{text}<extra></extra>",
        },
        *(_level(name, time_us, last) for name, time_us in lines.items()),
        *_promotions(search, landscape),
    ]
    layout = {"xaxis": {"title": "Trial"}, "yaxis": time_axis(times_us)}
    return Plot(
        summary=_summary(search, records),
        figures=(Figure(data=tuple(traces), layout=layout, height=420),),
        table=Table(
            head=("Trial", "Best so far"), rows=tuple((number, time_text(time_us)) for number, time_us in records)
        ),
        note="Click a point to open its trial. Stars are promotions. Times are on a logarithmic scale.",
    )


def levels(search: SearchView) -> dict[str, float]:
    """Return the time in µs of each reference line (baselines, incumbent, roofline), by name."""
    found = {f"baseline {name}": timing.median_us for name, timing in search.baselines.items()}
    champion, roofline, best = search.champion, search.roofline, search.best
    if champion is not None and champion.search_id != search.id:
        found[f"incumbent, champion {champion.id}"] = champion.time_us
    if roofline is not None and best is not None and roofline.floor_us >= ROOFLINE_SHOWN * best.time_us:
        found[f"{bound_text(roofline.bound)} limit"] = roofline.floor_us
    return {name: time_us for name, time_us in found.items() if time_us > 0}


def _level(name: str, time_us: float, last: int) -> dict[str, object]:
    kind = name.partition(" ")[0]
    colour, dash = {"baseline": ("@warn", "dash"), "incumbent,": ("@good", "dashdot")}.get(kind, ("@bad", "dot"))
    return {
        "type": "scatter",
        "mode": "lines",
        "name": label(name),
        "x": [0, last],
        "y": [time_us, time_us],
        "line": {"color": colour, "width": 1.6, "dash": dash},
        "hovertemplate": f"{label(name)}: {time_text(time_us)}<extra></extra>",
    }


def _promotions(search: SearchView, landscape: Landscape) -> list[dict[str, object]]:
    promoted = landscape.relatives([each.trial for each in search.challenges if each.verdict.promote])
    stars = [(trial.number, trial.time_us) for trial in promoted.values() if trial.time_us is not None]
    if not stars:
        return []
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "promoted",
            "x": [number for number, _ in stars],
            "y": [time_us for _, time_us in stars],
            "customdata": [number for number, _ in stars],
            "hovertemplate": "trial %{x} was promoted<extra></extra>",
            "marker": {"symbol": "star", "size": 15, "color": "@good", "line": {"color": "@card", "width": 1}},
        }
    ]


def _summary(search: SearchView, records: list[tuple[int, float]]) -> str:
    (_, first_us), (number, best_us) = records[0], records[-1]
    first, best = (time_text(time_us, estimated=search.estimated) for time_us in (first_us, best_us))
    better = count_text(len(records) - 1, "improvement")
    found = f"From {first} to {best} (trial {number}) in {count_text(search.asked, 'trial')}"
    lines = ", ".join(f"{name} {time_text(time_us)}" for name, time_us in levels(search).items())
    return f"{found}, {better}." + (f" Lines: {lines}." if lines else "")
