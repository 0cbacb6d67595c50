"""Computes SVG coordinates of best-so-far charts and sparklines, which templates then draw."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from api.web.drawings.axis import Logarithmic, Scale, Tick, margin, scale_of
from evo.trial.objective import Objective

WIDTH, HEIGHT = 760.0, 330.0
NARROW = 340.0
"""Width of the chart for phones. A chart of this width fits on the screen without scrolling."""
RIGHT, TOP, BOTTOM = 12.0, 16.0, 24.0
LABEL_HEIGHT = 15.0
LABEL_WIDTH = 180.0
"""Width of the area at the right end of a horizontal line that its label may cover."""

MAX_DOTS = 500
"""Maximum number of dots. In a longer search, every n-th trial is drawn. The best-so-far line uses all trials."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """A horizontal line with a label: a baseline, the incumbent champion, or the roofline."""

    y: float
    label_y: float
    label: str
    kind: str


@dataclass(frozen=True, kw_only=True)
class Confirmed:
    """Point for the best trial of a search in its chart, drawn if the trial is confirmed.

    Attributes:
        number: number of the trial.
        position: horizontal position: the trial's index among the ended trials or, in the chart of a long search, its
            number.
        cost: confirmed cost.
    """

    number: int
    position: int
    cost: float


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Coordinates of a best-so-far chart. `summary` describes the chart in words.

    Attributes:
        star: position of the best trial at its confirmed cost. None if it is not confirmed.
    """

    dots: tuple[tuple[float, float], ...]
    best_line: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    levels: tuple[Level, ...]
    summary: str
    left: float
    right: float
    star: tuple[float, float] | None = None
    width: float = WIDTH
    height: float = HEIGHT
    top: float = TOP
    bottom: float = HEIGHT - BOTTOM


def best_so_far(
    progress: Sequence[tuple[int, float]],
    ended: int,
    levels_us: Mapping[tuple[str, str], float],
    *,
    confirmed: Confirmed | None = None,
    width: float = WIDTH,
    scale: Scale | None = None,
) -> Chart | None:
    """Return the best-so-far chart of a search, or None if no trial has a cost yet.

    Args:
        progress: (index among the ended trials, quick cost) of each measured trial, sorted by index. For a long search,
            (trial number, lowest quick cost) of each group of consecutive trials, sorted by number.
        ended: number of ended trials, which is the length of the horizontal axis.
        levels_us: times of the horizontal lines in µs by (kind, label). Lines at 0 µs are not drawn.
        confirmed: best trial of the search. None if it is not confirmed.
        width: width of the drawing. A narrow drawing has fewer dots and ticks.
        scale: scale of the costs. If None, the costs are measured times.
    """
    if not progress:
        return None
    scale = scale or scale_of(Objective(), estimated=False)
    lines = {key: time_us for key, time_us in levels_us.items() if time_us > 0}
    proven = [] if confirmed is None else [confirmed.cost]
    y = Logarithmic([cost for _, cost in progress] + list(lines.values()) + proven, scale, HEIGHT - BOTTOM, TOP)
    y_ticks = y.ticks()
    left = margin(tick.label for tick in y_ticks)
    x = _Linear(0, max(ended - 1, 1), left, width - RIGHT)
    best = _running_best(progress)
    first, last = (scale.text(cost) for cost in (progress[0][1], best[-1][1]))
    last_x = f" H{x.at(max(ended - 1, 1)):.1f}"
    steps = [f"{'M' if index == 0 else 'H'}{x.at(seq):.1f}" for index, (seq, _) in enumerate(best)]
    drops = [f"{',' if index == 0 else ' V'}{y.at(time_us):.1f} " for index, (_, time_us) in enumerate(best)]
    return Chart(
        dots=tuple((round(x.at(seq), 1), round(y.at(time_us), 1)) for seq, time_us in _thinned(progress, width)),
        best_line="".join(step + drop for step, drop in zip(steps, drops, strict=True)).strip() + last_x,
        x_ticks=x.ticks(),
        y_ticks=y_ticks,
        levels=_levels({key: y.at(time_us) for key, time_us in lines.items()}, _range_at_labels(best, x, y)),
        left=left,
        right=width - RIGHT,
        star=None if confirmed is None else (round(x.at(confirmed.position), 1), round(y.at(confirmed.cost), 1)),
        width=width,
        summary=f"Best {scale.what} by ended trials: from {first} to {last} in {ended} trials."
        + ("" if confirmed is None else f" {_confirmed_text(confirmed, scale)}"),
    )


def _confirmed_text(confirmed: Confirmed, scale: Scale) -> str:
    return f"The best trial is {confirmed.number}: {scale.text(confirmed.cost)}, confirmed."


def _levels(heights: Mapping[tuple[str, str], float], drawn: tuple[float, float]) -> tuple[Level, ...]:
    """Return the horizontal lines with their labels.

    A label is above its line. If the best-so-far line would then cross the label, the label is below its line. `drawn`
    is the vertical range of the best-so-far line in the area of the labels.
    """
    levels: list[Level] = []
    for (kind, label), y in sorted(heights.items(), key=lambda item: item[1]):
        above = levels[-1].label_y + LABEL_HEIGHT if levels else TOP
        crossed = drawn[0] < y and drawn[1] > y - LABEL_HEIGHT - 2
        levels.append(Level(y=y, label_y=max(y + 13 if crossed else y - 4, above), label=label, kind=kind))
    return tuple(levels)


def _range_at_labels(best: Sequence[tuple[int, float]], x: "_Linear", y: Logarithmic) -> tuple[float, float]:
    """Return the vertical range of the best-so-far line in the area of the labels."""
    before = [time_us for seq, time_us in best if x.at(seq) < x.right - LABEL_WIDTH]
    heights = [y.at(time_us) for _, time_us in best[max(0, len(before) - 1) :]]
    return min(heights), max(heights)


def _running_best(progress: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    best: list[tuple[int, float]] = []
    for seq, time_us in progress:
        if not best or time_us < best[-1][1]:
            best.append((seq, time_us))
    return best


def _thinned(progress: Sequence[tuple[int, float]], width: float) -> Sequence[tuple[int, float]]:
    return progress[:: math.ceil(len(progress) / (MAX_DOTS * width / WIDTH))]


class _Linear:
    """Linear axis of the number of ended trials."""

    def __init__(self, low: float, high: float, left: float, right: float) -> None:
        self.low, self.high, self.left, self.right = low, high, left, right

    def at(self, value: float) -> float:
        return self.left + (self.right - self.left) * (value - self.low) / (self.high - self.low)

    def ticks(self) -> tuple[Tick, ...]:
        step = _round_step((self.high - self.low) / (6 if self.right > WIDTH / 2 else 3))
        count = math.floor(self.high / step)
        return tuple(Tick(at=self.at(index * step), label=f"{index * step:,}") for index in range(count + 1))


def _round_step(least: float) -> int:
    magnitude = 10 ** math.floor(math.log10(max(least, 1)))
    return int(next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= least))


SPARK_POINTS = 48
SPARK_WIDTH, SPARK_HEIGHT, MARGIN = 120.0, 28.0, 2.0


@dataclass(frozen=True, kw_only=True)
class Spark:
    """Sparkline as an SVG path. `summary` describes the sparkline in words."""

    path: str
    summary: str
    width: float = SPARK_WIDTH
    height: float = SPARK_HEIGHT


def spark_of(lows: Sequence[tuple[int, float]], scale: Scale | None = None) -> Spark | None:
    """Return a sparkline of the running minimum of (number, cost) pairs, or None if there are no pairs.

    Args:
        scale: scale of the costs. If None, the costs are measured times.
    """
    if not lows:
        return None
    best: list[tuple[int, float]] = []
    for number, time_us in lows:
        best.append((number, min(time_us, best[-1][1] if best else time_us)))
    first, last = best[0][1], best[-1][1]
    span = math.log(first / last) if last < first else 1.0
    end = max(best[-1][0], 1)

    def place(number: int, time_us: float) -> tuple[float, float]:
        down = math.log(first / time_us) / span if last < first else 0.5
        return MARGIN + (SPARK_WIDTH - 2 * MARGIN) * number / end, MARGIN + (SPARK_HEIGHT - 2 * MARGIN) * down

    x, y = place(*best[0])
    steps = [f"M{x:.1f},{y:.1f}"]
    for number, time_us in best[1:]:
        x, new_y = place(number, time_us)
        steps += [f"H{x:.1f}"] + ([f"V{new_y:.1f}"] if new_y != y else [])
        y = new_y
    steps.append(f"H{SPARK_WIDTH - MARGIN:.1f}")
    scale = scale or scale_of(Objective(), estimated=False)
    span_words = " to ".join(scale.text(cost) for cost in (first, last))
    return Spark(path=" ".join(steps), summary=f"Best {scale.what} so far: from {span_words}")
