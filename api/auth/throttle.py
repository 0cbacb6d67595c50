"""Rate limits with one token bucket per caller in this process."""

import time
from collections import OrderedDict
from dataclasses import dataclass

KEPT = 10_000
"""Maximum number of buckets. Additional buckets replace the least recently used ones, whose callers then start with a
full bucket.
"""


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Rate limit: a burst of `burst` requests, and `per_s` more requests each second."""

    per_s: float
    burst: float


class Throttle:
    """Token buckets for rate limits. Only the thread of the event loop may use them.

    Args:
        rates: rate limits, by the kind of bucket (such as ``caller`` or ``address``).
    """

    def __init__(self, rates: dict[str, Rate]) -> None:
        self._rates = rates
        self._buckets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    def wait_s(self, kind: str, key: str) -> float:
        """Return 0 and count the request if it is allowed, else return the seconds until the next one is allowed."""
        rate, now = self._rates[kind], time.monotonic()
        left, at = self._buckets.pop((kind, key), (rate.burst, now))
        left = min(rate.burst, left + (now - at) * rate.per_s)
        allowed = left >= 1.0
        self._buckets[kind, key] = (left - 1.0 if allowed else left, now)
        while len(self._buckets) > KEPT:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1.0 - left) / rate.per_s
