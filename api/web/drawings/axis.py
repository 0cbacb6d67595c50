"""Linear axis of a drawing, with round tick values."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

CHARACTER = 8.6
"""Largest width of a character in a label, in units of the drawing. Labels are 15 units high in a narrow window."""

GAP = 10.0


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A tick: position and label."""

    at: float
    label: str


@dataclass(frozen=True, kw_only=True)
class Axis:
    """Maps `low` to `start` and `high` to `end`. An empty range is mapped to the middle."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the position, rounded to a tenth."""
        share = 0.5 if self.high <= self.low else (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def marks(self, wanted: int, text: Callable[[float], str], *, least_step: float = 0.0) -> tuple[Mark, ...]:
        """Return about `wanted` round values inside the range, at least `least_step` apart."""
        if self.high <= self.low:
            return (Mark(at=self.at(self.low), label=text(self.low)),)
        step = round_step(max((self.high - self.low) / wanted, least_step))
        first = math.ceil(self.low / step)
        values = [index * step for index in range(first, math.floor(self.high / step) + 1)]
        return tuple(Mark(at=self.at(value), label=text(value)) for value in values)


def margin(labels: Iterable[str]) -> float:
    """Return the room that the widest label needs on the left, with a gap."""
    return round(GAP + CHARACTER * max(map(len, labels), default=0), 1)


def round_step(least: float) -> float:
    """Return the smallest of 1, 2, 5, 10, 20, 50 … (and 0.1, 0.2 …) that is at least `least`."""
    magnitude = 10.0 ** math.floor(math.log10(least))
    return next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= least * (1 - 1e-9))
