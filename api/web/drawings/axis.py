"""Axes of drawings: linear and logarithmic positions, round tick values, and labels."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from evo.text.limits import LONGEST_US, SHORTEST_US
from evo.text.wording import time_text
from evo.trial.objective import Objective

CHARACTER = 8.6
"""Maximum width of a character in units of the drawing, at the font size of narrow windows (15 units)."""

GAP = 10.0


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A tick on an axis: its position and label."""

    at: float
    label: str


@dataclass(frozen=True, kw_only=True)
class Axis:
    """Linear axis that maps `low` to `start` and `high` to `end`. An empty range is mapped to the middle."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the position of a value, rounded to a tenth."""
        share = 0.5 if self.high <= self.low else (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def marks(self, wanted: int, text: Callable[[float], str], *, least_step: float = 0.0) -> tuple[Mark, ...]:
        """Return about `wanted` ticks at round values, with a distance of at least `least_step`."""
        if self.high <= self.low:
            return (Mark(at=self.at(self.low), label=text(self.low)),)
        step = round_step(max((self.high - self.low) / wanted, least_step))
        first = math.ceil(self.low / step)
        values = [index * step for index in range(first, math.floor(self.high / step) + 1)]
        return tuple(Mark(at=self.at(value), label=text(value)) for value in values)


def margin(labels: Iterable[str]) -> float:
    """Return the width that the longest label needs, with a gap."""
    return round(GAP + CHARACTER * max(map(len, labels), default=0), 1)


def round_step(least: float) -> float:
    """Return the smallest round step (1, 2 or 5 times a power of ten) that is at least `least`."""
    magnitude = 10.0 ** math.floor(math.log10(least))
    return next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= least * (1 - 1e-9))


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Format and range of the values in a drawing.

    Attributes:
        what: noun for the values, used in summaries, e.g. ``quick time``.
    """

    text: Callable[[float], str]
    what: str
    least: float
    most: float


def scale_of(objective: Objective, *, estimated: bool) -> Scale:
    """Return the scale for the costs of a search: times (estimated or measured), or values of its metric."""
    if objective.metric is not None:
        return Scale(text=objective.metric_text, what=objective.metric, least=1e-300, most=1e300)
    text = partial(time_text, estimated=estimated)
    return Scale(text=text, what="estimate" if estimated else "quick time", least=SHORTEST_US, most=LONGEST_US)


@dataclass(frozen=True, kw_only=True)
class Tick:
    at: float
    label: str


class Logarithmic:
    """Logarithmic axis with a margin at both ends.

    Args:
        start, end: positions of the two ends of the axis.
    """

    def __init__(self, costs: Sequence[float], scale: Scale, start: float, end: float) -> None:
        self._scale, self._start, self._end = scale, start, end
        least, most = self._drawable(min(costs)), self._drawable(max(costs))
        self.low, self.high = math.log10(least * 0.92), math.log10(most * 1.08)

    def _drawable(self, cost: float) -> float:
        return min(max(cost, self._scale.least), self._scale.most)

    def at(self, cost: float) -> float:
        share = (math.log10(self._drawable(cost)) - self.low) / (self.high - self.low)
        return self._start + (self._end - self._start) * share

    def ticks(self, most: int = 8) -> tuple[Tick, ...]:
        """Return at most `most` ticks at 1, 2 and 5 times powers of ten, with finer steps in a narrow range."""
        powers = range(math.floor(self.low), math.ceil(self.high) + 1)
        for mantissas in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8), [index / 10 for index in range(10, 100)]):
            figures = [mantissa * 10.0**power for power in powers for mantissa in mantissas]
            inside = [figure for figure in figures if self.low <= math.log10(figure) <= self.high]
            if len(inside) >= 3:
                break
        inside = inside[:: math.ceil(len(inside) / most)]
        return tuple(Tick(at=self.at(figure), label=self._scale.text(figure)) for figure in inside)
