"""Lineage plot, with the ancestors of the champion and the settings that changed in each step."""

from collections.abc import Mapping, Sequence

from api.web.pages.plots.figure import Figure, Plot, Table, config_label, label, nothing, time_axis
from db.queries.landscape import Landscape, Relative
from evo.messages.view import SearchView
from evo.text.wording import count_text, origin_text, outcome_text, time_text, value_text
from evo.trial import Config

MOST, LONGEST = 120, 60
"""Maximum number of trials in the plot, and maximum number of trials in its line of first parents."""

TICKS = 12


def lineage(landscape: Landscape, search: SearchView) -> Plot:
    """Plot the ancestors of the champion if this search found it, else the ancestors of the search's best trial."""
    number = _descendant(search)
    if number is None:
        return nothing("No trial has been measured yet.")
    family = ancestors(landscape, number)
    line = main_line(family, number)
    head = "Champion" if search.champion is not None and search.champion.search_id == search.id else "Best"
    oldest = family[line[-1]]
    further = " at least" if oldest.parents else ""
    steps = f"{count_text(len(line) - 1, 'step')}{further}"
    summary = f"{head} trial {number} descends from trial {oldest.number} ({origin_text(oldest.origin)}) in {steps}."
    if len(line) == 1:
        summary = f"{head} trial {number} has no parent; its config: {origin_text(oldest.origin)}."
    timed = "Estimate" if search.estimated else "Quick time"
    return Plot(
        summary=summary,
        figures=(_figure(family, line),),
        table=Table(
            head=("Trial", "Origin", "Parents", timed, "Changes from the first parent"),
            rows=tuple(_row(family[each], family) for each in line),
        ),
        note="Read from right to left, back to the first ancestor. The thick line follows the first parents."
        f"{'' if search.estimated else ' All times are quick times, which are comparable within a search.'}",
    )


def ancestors(landscape: Landscape, number: int) -> dict[int, Relative]:
    """Return a trial and its ancestors by trial number, at most `MOST` trials in total.

    The line of first parents, with at most `LONGEST` trials, is included before all other ancestors.
    """
    family = dict(landscape.relatives([number]))
    newest = family[number]
    while newest.parents and newest.parents[0] not in family and len(family) < LONGEST:
        family |= landscape.relatives(newest.parents[:1])
        newest = family[newest.parents[0]]
    edge: Sequence[Relative] = list(family.values())
    while edge and len(family) < MOST:
        wanted = {parent for each in edge for parent in each.parents} - set(family)
        found = landscape.relatives(sorted(wanted)[: MOST - len(family)])
        family |= found
        edge = list(found.values())
    return family


def main_line(family: Mapping[int, Relative], number: int) -> list[int]:
    """Return the numbers of a trial, its first parent, the first parent of this parent, and so on."""
    line = [number]
    while (parents := family[line[-1]].parents) and parents[0] in family and parents[0] not in line:
        line.append(parents[0])
    return line


def _descendant(search: SearchView) -> int | None:
    if search.champion is not None and search.champion.search_id == search.id:
        return search.champion.trial_number
    return None if search.best is None else search.best.number


def _figure(family: Mapping[int, Relative], line: Sequence[int]) -> Figure:
    timed = {number: each for number, each in family.items() if each.time_us is not None}
    worst = max((each.time_us or 0.0 for each in timed.values()), default=1.0)
    height = {number: each.time_us or worst * 1.1 for number, each in family.items()}
    edges = [(number, parent) for number, each in family.items() for parent in each.parents if parent in family]
    nodes = list(family.values())
    between = {
        "type": "scatter",
        "mode": "lines",
        "hoverinfo": "skip",
        "x": [end for child, parent in edges for end in (parent, child, None)],
        "y": [end for child, parent in edges for end in (height[parent], height[child], None)],
        "line": {"color": "@quiet", "width": 1},
    }
    thick = {
        "type": "scatter",
        "mode": "lines",
        "hoverinfo": "skip",
        "x": list(line),
        "y": [height[number] for number in line],
        "line": {"color": "@good", "width": 3},
    }
    dots = {
        "type": "scatter",
        "mode": "markers+text" if len(nodes) <= 24 else "markers",
        "x": [each.number for each in nodes],
        "y": [height[each.number] for each in nodes],
        "customdata": [each.number for each in nodes],
        "text": [label(each.origin) for each in nodes],
        "textposition": [_label_position(each.number, family) for each in nodes],
        "cliponaxis": False,
        "hovertext": [_hover(each) for each in nodes],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "marker": {
            "size": [13 if each.number in line else 8 for each in nodes],
            "symbol": ["circle" if each.time_us is not None else "x" for each in nodes],
            "color": ["@good" if each.number in line else "@accent" for each in nodes],
        },
    }
    few = {"dtick": 1} if max(family) - min(family) <= TICKS else {}  # without fractional trial numbers on the axis
    layout = {"xaxis": {"title": "Trial", **few}, "yaxis": time_axis(list(height.values())), "showlegend": False}
    return Figure(data=(between, thick, dots), layout=layout, height=360)


def _label_position(number: int, family: Mapping[int, Relative]) -> str:
    """Return the Plotly position of a point's label: above the point; for the outermost points, also inwards."""
    return (
        {min(family): "top right", max(family): "top left"}.get(number, "top center")
        if len(family) > 1
        else "top center"
    )


def _hover(each: Relative) -> str:
    ended = time_text(each.time_us) if each.time_us is not None else outcome_text(each.kind or "pending")
    return f"trial {each.number}, {label(each.origin)}: {ended}<br>{config_label(each.config)}"


def _row(each: Relative, family: Mapping[int, Relative]) -> tuple[str, ...]:
    parent = family.get(each.parents[0]) if each.parents else None
    changed = "–" if parent is None else _changed(parent.config, each.config)
    ended = time_text(each.time_us) if each.time_us is not None else outcome_text(each.kind or "pending")
    return str(each.number), each.origin, ", ".join(map(str, each.parents)) or "none", ended, changed


def _changed(before: Config, after: Config) -> str:
    found = [
        f"{name} {value_text(before[name])} → {value_text(value)}"
        for name, value in after.items()
        if name in before and before[name] != value
    ]
    return ", ".join(found) or "nothing"
