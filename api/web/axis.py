"""From values to positions on a drawing, with round numbers beside it."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

CHARACTER = 8.6
"""Width of one in a label, at most, in units of a drawing: labels are 15 units high in a narrow window."""

GAP = 10.0


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A tick: where, and what it says."""

    at: float
    label: str


@dataclass(frozen=True, kw_only=True)
class Axis:
    """`low` lies at `start`, `high` at `end`, in between linearly; a range of no width lies in the middle."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The position, to a tenth: a drawing needs no more."""
        share = 0.5 if self.high <= self.low else (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def marks(self, wanted: int, text: Callable[[float], str], *, least_step: float = 0.0) -> tuple[Mark, ...]:
        """Return about so many round values inside the range, at least `least_step` apart."""
        if self.high <= self.low:
            return (Mark(at=self.at(self.low), label=text(self.low)),)
        step = round_step(max((self.high - self.low) / wanted, least_step))
        first = math.ceil(self.low / step)
        values = [place * step for place in range(first, math.floor(self.high / step) + 1)]
        return tuple(Mark(at=self.at(value), label=text(value)) for value in values)


def margin(labels: Iterable[str]) -> float:
    """Room on the left for the widest of these labels, and for the gap beside it."""
    return round(GAP + CHARACTER * max(map(len, labels), default=0), 1)


def round_step(least: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50 … (and of 0.1, 0.2 …) that is at least this."""
    magnitude = 10.0 ** math.floor(math.log10(least))
    return next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= least * (1 - 1e-9))
