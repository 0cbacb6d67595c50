"""Plot of the outcomes of trials over the course of a search."""

import math

from api.web.filters import tone
from api.web.pages.plots.figure import Figure, Plot, Table, nothing
from db.queries.landscape import Counted, Landscape
from db.queries.selection import RANKED
from evo.messages.view import SearchView
from evo.text.wording import outcome_text

PARTS = 40
FEW = 6
"""Height of the tallest bar up to which every integer gets a tick. Plotly's default ticks would include halves."""
PATTERNS = ("", "/", "x", "\\", "-", ".", "+", "|")
"""Fill patterns of the bars, so that outcomes can be distinguished without colour."""


def outcomes_over_time(landscape: Landscape, search: SearchView) -> Plot:
    """Plot the number of trials by outcome, including pending trials. Each stacked bar shows consecutive trials."""
    if not search.asked:
        return nothing("No trial has started yet.")
    parts = min(PARTS, search.asked)
    counted = landscape.outcomes(parts)
    totals: dict[str, int] = {}
    for each in counted:
        totals[_kind(each)] = totals.get(_kind(each), 0) + each.count
    kinds = sorted(totals, key=lambda kind: (kind not in RANKED, -totals[kind], kind))
    traces = [_bars(kind, index, counted, (parts, search.asked)) for index, kind in enumerate(kinds)]
    rows = tuple((outcome_text(kind), totals[kind], f"{totals[kind] / search.asked:.1%}") for kind in kinds)
    tallest = math.ceil(search.asked / parts)
    ticks = {"dtick": 1} if tallest <= FEW else {}
    layout = {"barmode": "stack", "bargap": 0.06, "xaxis": {"title": "Trial"}, "yaxis": {"title": "Trials", **ticks}}
    return Plot(
        summary=", ".join(f"{count:,} {kind} ({share})" for kind, count, share in rows) + ".",
        figures=(Figure(data=tuple(traces), layout=layout),),
        table=Table(head=("Outcome", "Trials", "Share"), rows=rows),
        note="Each bar shows the same number of trials, in the order of proposal.",
    )


def _kind(each: Counted) -> str:
    return each.kind or "pending"


def _bars(kind: str, index: int, counted: list[Counted], axis: tuple[int, int]) -> dict[str, object]:
    parts, asked = axis
    width = asked / parts
    mine = [each for each in counted if _kind(each) == kind]
    colour = {"good": "@good", "warn": "@warn", "quiet": "@quiet", "accent": "@accent"}.get(tone(kind), "@bad")
    return {
        "type": "bar",
        "name": outcome_text(kind),
        "x": [(each.part + 0.5) * width for each in mine],
        "y": [each.count for each in mine],
        "width": width,
        "hovertemplate": f"%{{y}} {outcome_text(kind)}<extra></extra>",
        "marker": {
            "color": colour,
            "opacity": 0.75 if kind in RANKED else 0.9,
            "pattern": {
                "shape": PATTERNS[index % len(PATTERNS)],
                "fillmode": "overlay",
                "fgcolor": "@card",
                "size": 6,
                "solidity": 0.25,
            },
        },
    }
