"""Samples of one kernel under one protocol, the median ranks, the samples are kept; and when fewer say enough."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evo.trial.objective import PROTOCOL_VERSION


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Times of one kernel in one session.

    Attributes:
        samples_us: microseconds per call, one entry a sample, in the order taken.
        calls_per_sample: calls each sample averages over.
        anchor_us: median of the anchor kernel timed in the same session, or None where there is none (replay).
        floor_us: median of an empty call or empty kernel in the same session; shown beside, never subtracted.
        protocol: version of the timing protocol.
    """

    samples_us: tuple[float, ...]
    calls_per_sample: int = 1
    anchor_us: float | None = None
    floor_us: float | None = None
    protocol: int = PROTOCOL_VERSION

    @cached_property
    def median_us(self) -> float:
        return float(np.median(self.samples_us))

    @cached_property
    def iqr_us(self) -> float:
        """Interquartile range of the samples."""
        low, high = np.percentile(self.samples_us, (25, 75))
        return float(high - low)


@dataclass(frozen=True, kw_only=True)
class Bars:
    """What a candidate has to be faster than to have all samples of the quick gate taken; None: it need not.

    Attributes:
        prune_us: slower, it is hopeless: it is stopped, and its median does not rank.
        shorten_us: slower, it is none of the elites: a part of the samples says where it ranks.
    """

    prune_us: float | None = None
    shorten_us: float | None = None
