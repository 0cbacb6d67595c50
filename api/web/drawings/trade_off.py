"""Computes SVG coordinates of trials by two objectives and their Pareto front, which templates then draw."""

from collections.abc import Sequence
from dataclasses import dataclass

from api.web.drawings.axis import Logarithmic, Tick, margin, scale_of
from evo.text.wording import count_text
from evo.trial.objective import Objective, front

HEIGHT, TOP, RIGHT, BOTTOM = 330.0, 16.0, 28.0, 44.0
CLOSE = 14.0
"""Distance below which only the first of neighbouring trials on the Pareto front gets a label."""


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """A trial with its costs by two objectives. Lower costs are better."""

    number: int
    first: float
    second: float


@dataclass(frozen=True, kw_only=True)
class Spot:
    """A trial on the Pareto front, as drawn in the plot. `label` is empty if there is no room for it."""

    x: float
    y: float
    label: str


@dataclass(frozen=True, kw_only=True)
class TradeOff:
    """Coordinates of a plot of trials by two objectives. `summary` describes the plot in words.

    Attributes:
        dots: positions of the trials that are not on the Pareto front.
        line: SVG path of the Pareto front, drawn as a staircase.
    """

    dots: tuple[tuple[float, float], ...]
    spots: tuple[Spot, ...]
    line: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    summary: str
    left: float
    right: float
    width: float
    height: float = HEIGHT
    top: float = TOP
    bottom: float = HEIGHT - BOTTOM


def front_of(trials: Sequence[Weighed]) -> tuple[Weighed, ...]:
    """Return the trials on the Pareto front, sorted by the first objective."""
    best = front([(each.first, each.second) for each in trials])
    chosen = (each for index, each in enumerate(trials) if index in best)
    return tuple(sorted(chosen, key=lambda each: (each.first, each.number)))


def trade_off(
    trials: Sequence[Weighed], axes: tuple[Objective, Objective], *, width: float, estimated: bool
) -> TradeOff | None:
    """Return the drawing of the trials of a search, or None if there are fewer than two.

    The first cost increases to the right, and the second cost increases upwards.

    Args:
        axes: the two objectives of the search, or its metric and the time.
        estimated: True if the times are estimates.
    """
    if len(trials) < 2:
        return None
    x_scale, y_scale = (scale_of(axis, estimated=estimated) for axis in axes)
    y = Logarithmic([each.second for each in trials], y_scale, HEIGHT - BOTTOM, TOP)
    y_ticks = y.ticks()
    left, right = margin(tick.label for tick in y_ticks), width - RIGHT
    x = Logarithmic([each.first for each in trials], x_scale, left, right)
    best = front_of(trials)
    spots = _spots([(x.at(each.first), y.at(each.second), str(each.number)) for each in best])
    members = {each.number for each in best}
    steps = [f"M{spots[0].x},{spots[0].y}", *(f"H{spot.x} V{spot.y}" for spot in spots[1:])]
    return TradeOff(
        dots=tuple(
            (round(x.at(each.first), 1), round(y.at(each.second), 1)) for each in trials if each.number not in members
        ),
        spots=spots,
        line=" ".join(steps),
        x_ticks=x.ticks(5 if width > WIDE else 3),
        y_ticks=y_ticks,
        left=left,
        right=right,
        width=width,
        summary=f"{count_text(len(trials), 'trial')} by {axes[0].called} and {axes[1].called}; "
        f"{count_text(len(best), 'trial')} on the Pareto front, from trial {best[0].number} to {best[-1].number}.",
    )


WIDE = 500.0
"""Drawings below this width have fewer ticks."""


def _spots(points: Sequence[tuple[float, float, str]]) -> tuple[Spot, ...]:
    spots: list[Spot] = []
    labelled = (float("-inf"), float("-inf"))
    for x, y, number in points:
        room = max(abs(x - labelled[0]), abs(y - labelled[1])) >= CLOSE
        spots.append(Spot(x=round(x, 1), y=round(y, 1), label=number if room else ""))
        labelled = (x, y) if room else labelled
    return tuple(spots)
