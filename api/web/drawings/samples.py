"""Draws samples as traces in the order of measurement and as histograms, in SVG coordinates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from api.web.drawings.axis import Axis, Mark, margin
from evo.text.limits import LONGEST_US, SHORTEST_US
from evo.text.wording import count_text, time_text
from evo.trial.timing import Timing

HALF, WHOLE = 560.0, 1140.0
TRACE_HEIGHT, LEAST_ROW = 250.0, 54.0
RIGHT, TOP, BOTTOM = 14.0, 12.0, 26.0
BINS = 60
MOST_POINTS = 400
"""Maximum number of points per series. In a longer series, every n-th sample is drawn. The histogram counts all
samples.
"""

SHAPES = ("circle", "square", "triangle", "diamond", "cross", "ring", "plus")
"""Shapes of the points by series, so that series can be distinguished without colour."""

OUTLYING = 4.0
"""A sample that is more than this number of interquartile ranges outside the quartiles is drawn at the edge with a
mark."""


@dataclass(frozen=True, kw_only=True)
class IntervalLine:
    """A confidence interval as a line of a drawing, with the estimate as a dot."""

    name: str
    place: int
    y: float
    low_x: float
    x: float
    high_x: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Frame of a drawing with one row per item and a common scale. `summary` describes the drawing in words."""

    marks: tuple[Mark, ...]
    summary: str
    height: float
    width: float = WHOLE
    top: float = TOP
    bottom: float = BOTTOM


@dataclass(frozen=True, kw_only=True)
class Point:
    x: float
    y: float
    outlying: bool


@dataclass(frozen=True, kw_only=True)
class Bin:
    """One bar of a histogram. `height` is relative to the tallest bar."""

    x: float
    width: float
    height: float


@dataclass(frozen=True, kw_only=True)
class Series:
    """Samples of one kernel, drawn as points of a trace and as a histogram.

    Attributes:
        place: index that selects the colour and the shape of the points.
        base: vertical position of the histogram.
        median, spread: median and interquartile range of the samples, as text.
        outlying: number of samples outside the drawn range.
    """

    name: str
    place: int
    points: tuple[Point, ...]
    bins: tuple[Bin, ...]
    base: float
    median_x: float
    median: str
    spread: str
    count: int
    outlying: int

    @property
    def shape(self) -> str:
        return SHAPES[self.place % len(SHAPES)]


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """Traces and histograms of series on a common time scale. `summary` describes them in words.

    Attributes:
        time_marks, order_marks: ticks of the traces: time (vertical) and number of the sample (horizontal).
        spread_marks: ticks of the histograms: time (horizontal).
    """

    series: tuple[Series, ...]
    time_marks: tuple[Mark, ...]
    spread_marks: tuple[Mark, ...]
    order_marks: tuple[Mark, ...]
    summary: str
    row_height: float
    width: float
    right: float
    left: float
    height: float = TRACE_HEIGHT
    top: float = TOP
    bottom: float = TRACE_HEIGHT - BOTTOM

    @property
    def spread_height(self) -> float:
        return TOP + self.row_height * len(self.series) + BOTTOM


def drawing(timings: Mapping[str, Timing], width: float = HALF, first: int = 0) -> Drawing | None:
    """Return a drawing of several series in the given order, or None if there are no series.

    Samples with the same index have the same horizontal position, because interleaved series are measured together.

    Args:
        first: index of the first series. The index of a series selects its colour and shape.
    """
    if not timings:
        return None
    low, high = _range([_drawable(timing) for timing in timings.values()])
    longest = max(len(timing.samples_us) for timing in timings.values())
    row_height = max(LEAST_ROW, (TRACE_HEIGHT - TOP - BOTTOM) / len(timings))
    times = Axis(low=low, high=high, start=TRACE_HEIGHT - BOTTOM - 6, end=TOP + 6)
    time_marks = times.marks(5, time_text)
    left = margin(mark.label for mark in time_marks)
    order = Axis(low=0.0, high=longest - 1.0, start=left + 6, end=width - RIGHT - 6)
    across = Axis(low=low, high=high, start=left + 6, end=width - RIGHT - 6)
    return Drawing(
        series=tuple(
            _series(first + row, item, row_height * (row + 1), (order, times, across))
            for row, item in enumerate(timings.items())
        ),
        time_marks=time_marks,
        spread_marks=across.marks(6, time_text),
        order_marks=order.marks(6, lambda index: f"{index + 1:.0f}", least_step=1.0),
        summary=". ".join(_sentence(name, timing) for name, timing in timings.items()) + ".",
        row_height=row_height,
        width=width,
        left=left,
        right=width - RIGHT,
    )


def _range(series: Sequence[np.ndarray[tuple[int], np.dtype[np.float64]]]) -> tuple[float, float]:
    """Return the lowest and the highest value of the drawing, without the far outliers of each series."""
    lows, highs = [], []
    for samples in series:
        low, high = np.percentile(samples, (25, 75))
        reach = OUTLYING * max(high - low, 1e-3 * high)
        inside = samples[(samples >= low - reach) & (samples <= high + reach)]
        lows.append(float(inside.min()))
        highs.append(float(inside.max()))
    low, high = min(lows), max(highs)
    room = (
        max(0.04 * (high - low), 1e-9 * high) if high > low else 0.01 * high
    )  # the edges of histogram bins must differ
    return low - room, high + room


def _series(index: int, item: tuple[str, Timing], below: float, axes: tuple[Axis, Axis, Axis]) -> Series:
    (name, timing), (order, times, across) = item, axes
    samples = _drawable(timing)
    inside = samples[(samples >= times.low) & (samples <= times.high)]
    every = -(-len(samples) // MOST_POINTS)
    base = round(TOP + below, 1)
    return Series(
        name=name,
        place=index,
        points=tuple(_point(at, float(samples[at]), order, times) for at in range(0, len(samples), every)),
        bins=_bins(inside, across),
        base=base,
        median_x=across.at(float(np.median(samples))),
        median=time_text(timing.median_us),
        spread=time_text(timing.iqr_us),
        count=len(samples),
        outlying=len(samples) - len(inside),
    )


def _drawable(timing: Timing) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    samples: np.ndarray[tuple[int], np.dtype[np.float64]] = np.asarray(timing.samples_us)
    return samples.clip(SHORTEST_US, LONGEST_US)


def _point(at: int, time_us: float, order: Axis, times: Axis) -> Point:
    kept = min(max(time_us, times.low), times.high)
    return Point(x=order.at(at), y=times.at(kept), outlying=kept != time_us)


def _bins(samples: np.ndarray[tuple[int], np.dtype[np.float64]], across: Axis) -> tuple[Bin, ...]:
    counts, edges = np.histogram(samples, bins=BINS, range=(across.low, across.high))
    tallest = max(1, int(counts.max()))
    width = round((across.end - across.start) / BINS - 1, 1)
    return tuple(
        Bin(x=across.at(float(edge)), width=width, height=round(int(count) / tallest, 3))
        for count, edge in zip(counts, edges[:-1], strict=True)
        if count
    )


def _sentence(name: str, timing: Timing) -> str:
    samples = count_text(len(timing.samples_us), "sample")
    least, most = time_text(min(timing.samples_us)), time_text(max(timing.samples_us))
    return f"{name}: median {time_text(timing.median_us)}, {samples} from {least} to {most}"
