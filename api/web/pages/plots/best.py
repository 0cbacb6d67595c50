"""Best-so-far plot, with quick times of trials, confirmed times and reference lines."""

from api.web.pages.plots.figure import Figure, Plot, Table, Trace, label, nothing, time_axis
from db.queries.landscape import Landscape
from evo.messages.view import SearchView
from evo.text.wording import bound_text, count_text, time_text

DOTS = 2000
ROOFLINE_SHOWN = 0.02
"""Minimum ratio of the roofline time to the best time. A lower roofline is not drawn, to keep the plot readable."""


def best_so_far(landscape: Landscape, search: SearchView) -> Plot:
    """Plot time against trial number, with baselines, incumbent, roofline and confirmed times."""
    records = landscape.records()
    if not records:
        return nothing("No trial has been measured yet.")
    dots = landscape.times(DOTS)
    last = max(search.asked - 1, records[-1][0])
    lines = levels(search)
    proven = [search.best.time_us] if search.best is not None else []
    times_us = [time_us for _, time_us in (*dots, *records)] + list(lines.values()) + proven
    steps = [*records, (last, records[-1][1])]
    traces: list[Trace] = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "estimates" if search.estimated else "quick times",
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
            "name": "best estimate so far" if search.estimated else "best quick time so far",
            "x": [number for number, _ in steps],
            "y": [time_us for _, time_us in steps],
            "line": {"shape": "hv", "color": "@accent", "width": 2.5},
            "text": [time_text(time_us) for _, time_us in steps],
            "hovertemplate": "best from trial %{x}: %{text}<extra></extra>",
        },
        *(_level(name, time_us, last) for name, time_us in lines.items()),
        *_confirmations(search),
    ]
    layout = {"xaxis": {"title": "Trial"}, "yaxis": time_axis(times_us)}
    return Plot(
        summary=_summary(search, records),
        figures=(Figure(data=tuple(traces), layout=layout, height=420),),
        table=Table(
            head=("Trial", "Best estimate so far" if search.estimated else "Best quick time so far"),
            rows=tuple((number, time_text(time_us)) for number, time_us in records),
        ),
        note="Click a point to open its trial. Stars are confirmed times. They come from other runs and are not "
        "comparable with quick times. Times are on a logarithmic scale.",
    )


def levels(search: SearchView) -> dict[str, float]:
    """Return the time in µs of each reference line (baselines, incumbent, roofline), by name."""
    found = {f"baseline {name}": timing.median_us for name, timing in search.baselines.items()}
    champion, roofline, best = search.champion, search.roofline, search.best
    if champion is not None and champion.search_id != search.id:
        found[f"incumbent, champion {champion.id}, confirmed"] = champion.time_us
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


def _confirmations(search: SearchView) -> list[dict[str, object]]:
    """Return the traces of the stars, which are the confirmed times of the best trial and of all promoted trials."""
    promoted = [each for each in search.challenges if each.verdict.promote]
    found = {each.trial: each.verdict.challenger.estimate for each in promoted if each.verdict.challenger is not None}
    if search.best is not None and search.best.time.confirmed:
        found[search.best.number] = search.best.time_us
    stars = sorted(found.items())
    if not stars:
        return []
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "confirmed",
            "x": [number for number, _ in stars],
            "y": [time_us for _, time_us in stars],
            "customdata": [number for number, _ in stars],
            "text": [_star_text(search, number, time_us) for number, time_us in stars],
            "hovertemplate": "trial %{x}: %{text}<extra></extra>",
            "marker": {"symbol": "star", "size": 15, "color": "@good", "line": {"color": "@card", "width": 1}},
        }
    ]


def _star_text(search: SearchView, number: int, time_us: float) -> str:
    promoted = any(each.trial == number and each.verdict.promote for each in search.challenges)
    return f"{time_text(time_us)}, confirmed{' and promoted' if promoted else ''}"


def _summary(search: SearchView, records: list[tuple[int, float]]) -> str:
    (_, first_us), (number, best_us) = records[0], records[-1]
    first, best = (time_text(time_us, estimated=search.estimated) for time_us in (first_us, best_us))
    better, kind = count_text(len(records) - 1, "improvement"), "" if search.estimated else "Quick times: "
    found = f"{kind}from {first} to {best} (trial {number}) in {count_text(search.asked, 'trial')}, {better}."
    if search.best is not None and search.best.time.confirmed:
        found += f" The best trial is {search.best.number}: {time_text(search.best.time_us)}, confirmed."
    lines = ", ".join(f"{name} {time_text(time_us)}" for name, time_us in levels(search).items())
    return f"{found[:1].upper()}{found[1:]}" + (f" Lines: {lines}." if lines else "")
