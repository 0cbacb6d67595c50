"""Timing samples of one kernel, and the times at which a measurement is shortened or stopped."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evo.trial.objective import PROTOCOL_VERSION

_UNSTEADY = 0.1
"""Maximum interquartile range of the samples, divided by their median. Noisier samples are too unreliable to compare
kernels.
"""


@dataclass(frozen=True, kw_only=True)
class Power:
    """Average power of a device during intervals of uninterrupted calls of one kernel, read from an energy meter.

    Attributes:
        samples_w: watts, one entry per interval, in the order taken. The idle power of the device is included.
        samples_us: microseconds per call in the same intervals.
        meter: name of the energy meter, e.g. ``RAPL package-0``.
    """

    samples_w: tuple[float, ...]
    samples_us: tuple[float, ...]
    meter: str

    @cached_property
    def median_w(self) -> float:
        return float(np.median(self.samples_w))


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Times of one kernel in one session. All samples are kept; the median ranks kernels.

    Attributes:
        samples_us: microseconds per call, one entry per sample, in the order taken.
        calls_per_sample: number of calls over which each sample is averaged.
        anchor_us: median time of the anchor kernel, a fixed kernel timed in the same session; None if there is no
            anchor (replay).
        floor_us: median time of an empty call or empty kernel in the same session; None if not measured. It is reported
            but never subtracted.
        protocol: version of the timing protocol.
        power: power measured after the samples in the same session; None if the search's metric does not use it.
    """

    samples_us: tuple[float, ...]
    calls_per_sample: int = 1
    anchor_us: float | None = None
    floor_us: float | None = None
    protocol: int = PROTOCOL_VERSION
    power: Power | None = None

    @cached_property
    def median_us(self) -> float:
        return float(np.median(self.samples_us))

    @cached_property
    def iqr_us(self) -> float:
        """Interquartile range of the samples in µs."""
        low, high = np.percentile(self.samples_us, (25, 75))
        return float(high - low)

    @property
    def unsteady(self) -> bool:
        """True if the samples vary so much that other programs probably used the device."""
        return self.iqr_us > _UNSTEADY * self.median_us


@dataclass(frozen=True, kw_only=True)
class Bars:
    """Times above which the quick measurement of a candidate is shortened or stopped; None means no limit.

    Attributes:
        prune_us: a slower candidate is stopped, and its median is not used for ranking.
        shorten_us: a slower candidate is not one of the fastest trials (elites), so fewer samples suffice to rank it.
        hopeless_us: a candidate whose first verified calls are slower is stopped before its other cases are verified.
    """

    prune_us: float | None = None
    shorten_us: float | None = None
    hopeless_us: float | None = None
