"""Limits how many requests one caller may send: a bucket of tokens for each, in this process alone."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

KEPT = 10_000
"""Buckets kept; the one that was used longest ago is forgotten first, and is full again when it comes back."""


@dataclass(frozen=True, kw_only=True)
class Rate:
    """`burst` requests at once, and `per_s` more each second."""

    per_s: float
    burst: float


class Throttle:
    """For the event loop's thread alone.

    Args:
        rates: by the kind of what is limited.
    """

    def __init__(self, rates: dict[str, Rate], clock: Callable[[], float] = time.monotonic) -> None:
        self._rates = rates
        self._clock = clock
        self._buckets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    def wait_s(self, kind: str, key: str) -> float:
        """0 when one more is let through, which counts, else the seconds until one would be."""
        rate, now = self._rates[kind], self._clock()
        left, at = self._buckets.pop((kind, key), (rate.burst, now))
        left = min(rate.burst, left + (now - at) * rate.per_s)
        allowed = left >= 1.0
        self._buckets[kind, key] = (left - 1.0 if allowed else left, now)
        while len(self._buckets) > KEPT:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1.0 - left) / rate.per_s
