"""Roofline: the shortest time in which a device can compute a problem, and a lower bound for every correct kernel."""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from evo.device import Ceilings, Device, kind_of
from evo.family import Work
from evo.trial.objective import Objective

CLOCK_TOLERANCE = 0.2
"""Tolerance of a ceiling from a datasheet. Turbo may raise the clock by about this fraction."""

Bound: TypeAlias = Literal["memory", "arithmetic", "latency"]

BUSY = 0.6
"""Minimum share of the roofline, or of a counter's peak, at which a resource and not latency bounds a kernel's time."""

MOST_COLD_SETS = 4096
"""Maximum number of buffer sets (copies of a kernel's arrays) through which cold calls rotate."""

MEASURED_TOLERANCE = 0.4
"""Tolerance of a measured ceiling, which other programs may have lowered. Two measurements that were minutes apart
differed by a factor of 1.4.
"""


@dataclass(frozen=True, kw_only=True)
class Roofline:
    """The shortest time in which a device can compute a problem.

    Attributes:
        floor_us: the longest of the times for arithmetic, special operations, caches and memory. 0.0 if no time is
            known, e.g. if all bytes stay in the cache and the rates of the cache and of the arithmetic are unknown.
            Another algorithm may need fewer special operations, e.g. if it computes exponentials with polynomials.
        bound: ``compute`` if arithmetic or special operations take longest, ``memory`` if caches or memory do.
        tolerance: fraction by which `least_us` may be too high.
        certain_us: the longer of the times for arithmetic and memory, without special operations and without rates of
            repeated copies (`Ceilings.copies`). It is a lower bound for every kernel. None if it equals `floor_us`.

    Source: Williams, Waterman and Patterson, Roofline, Communications of the ACM 52(4) (2009), 65-76.
    """

    floor_us: float
    bound: Literal["compute", "memory"]
    tolerance: float = CLOCK_TOLERANCE
    certain_us: float | None = None

    @property
    def least_us(self) -> float:
        """Lower bound of a correct kernel's time in µs. It may be too high by the tolerance."""
        return self.floor_us if self.certain_us is None else self.certain_us

    def share(self, time_us: float | None) -> float | None:
        """Return the share of the limit that a time reaches; None if unknown (see `share_of_limit`)."""
        return share_of_limit(self.floor_us, time_us)

    def bound_at(self, time_us: float | None) -> Bound | None:
        """Return what bounds a kernel with this time; None if the time or the limit is unknown.

        A kernel that is much slower than the limit of memory and arithmetic keeps neither of them busy: it mostly
        waits, i.e. latency bounds its time.
        """
        if (share := self.share(time_us)) is None:
            return None
        if share < BUSY:
            return "latency"
        return "arithmetic" if self.bound == "compute" else "memory"

    def impossible(self, time_us: float) -> bool:
        """Return True if a time is below `least_us` by more than the tolerance."""
        return time_us < self.least_us * (1.0 - self.tolerance)


def share_of_limit(floor_us: float, time_us: float | None) -> float | None:
    """Return the share of the roofline limit that a kernel with this time reaches; 1.0 is the limit itself.

    The result is None if the time is unknown, or if the limit is 0 because all bytes stay in the cache.
    """
    return floor_us / time_us if floor_us and time_us else None


KEPT_WHOLE, KEPT_NOTHING = 0.5, 1.0
"""Sizes of data that a kernel reads once in address order, as fractions of a GPU's L2 cache. Up to the first size, all
of the data stay in the cache until the next call; from the second size upwards, none stay.

Repeated copies and reads on an H100 (50 MiB of L2) reached 4.3 TB/s at half the size of the cache, 3.5 TB/s at 0.7 of
its size, 2.8 TB/s at its size, and 2.7 to 3.0 TB/s at 1.1 to 16 times its size. The memory alone reaches 3.0 TB/s. With
least-recently-used replacement, each byte of larger data is evicted before the next call reads it again.
"""


def roofline(
    work: Work,
    ceilings: Ceilings,
    *,
    threads: int = 1,
    cached_bytes: float = 0.0,
    cache_bytes_per_s: float | None = None,
    copies_per_s: float | None = None,
) -> Roofline:
    """Return the roofline of a problem on a device with the given ceilings.

    Arithmetic, special operations, caches and memory are assumed to work at the same time.

    Args:
        work: number of arithmetic operations, minimum number of bytes moved, and dtype of the arithmetic. If the dtype
            has no ceiling, the arithmetic adds no time.
        threads: number of CPU threads. All rates except `cache_bytes_per_s` are multiplied by this number. Real rates
            may grow less, so the result remains a lower bound.
        cached_bytes: bytes that a cache keeps between calls, so that main memory does not move them.
        cache_bytes_per_s: rate of this cache, at which all bytes of the problem move. None if the cache does not limit
            the time.
        copies_per_s: rate in bytes per second at which caches deliver the problem's bytes; for a CPU, the rate of one
            thread. It affects `floor_us` but not `certain_us`. None if unknown.
    """
    rate = ceilings.flops_per_s.get(work.dtype)
    compute_us = 0.0 if rate is None else work.flops / (rate * threads) * 1e6
    memory_us = max(0.0, work.bytes - cached_bytes) / (ceilings.bytes_per_s * threads) * 1e6
    if cache_bytes_per_s is not None:
        memory_us = max(memory_us, work.bytes / cache_bytes_per_s * 1e6)
    least_us = max(compute_us, memory_us)
    certain_source = ceilings.source if compute_us >= memory_us else ceilings.bytes_source or ceilings.source
    rates = ceilings.special_per_s
    special_us = [count / (rates[name] * threads) * 1e6 for name, count in work.special.items() if name in rates]
    compute_us = max([compute_us, *special_us])
    if copies_per_s is not None:
        memory_us = max(memory_us, work.bytes / (copies_per_s * threads) * 1e6)
    floor_us = max(compute_us, memory_us)
    return Roofline(
        floor_us=floor_us,
        bound="compute" if compute_us >= memory_us else "memory",
        tolerance=MEASURED_TOLERANCE if certain_source == "measured" else CLOCK_TOLERANCE,
        certain_us=None if floor_us == least_us else least_us,
    )


def device_roofline(device: Device, work: Work | None, objective: Objective) -> Roofline | None:
    """Return the roofline of a device for an objective; None if the work or the ceilings are unknown.

    In a hot measurement, main memory moves only the bytes that do not fit into the last-level cache. A cache of unknown
    size is assumed to hold everything. All bytes must also pass through the caches, at the rate of the largest size in
    `Ceilings.copies` that is at most the number of bytes of the work. Without such a size, this rate is ignored.

    In a cold measurement, main memory moves all bytes, unless even `MOST_COLD_SETS` buffer sets fit into the cache.
    """
    if device.ceilings is None or work is None:
        return None
    kind = kind_of(device.kind)
    cache_bytes = device.limits.get(kind.last_cache, math.inf)
    # if even the largest number of buffer sets fits the cache, cold calls find their data in it
    small = math.isfinite(cache_bytes) and work.bytes * MOST_COLD_SETS < cache_bytes
    kept = cache_bytes if objective.cache == "hot" or small else 0.0
    threads = objective.threads if kind.on_host else 1
    delivered = [rate for size, rate in device.ceilings.copies if size <= work.bytes] if kept else []
    rate = delivered[-1] if delivered else None
    return roofline(work, device.ceilings, threads=threads, cached_bytes=kept, copies_per_s=rate)


def stream_roofline(target: Device, work: Work | None, objective: Objective) -> Roofline | None:
    """Return the roofline on a GPU for a kernel that reads each byte once, in address order.

    The result is an expectation for estimates, not a bound. In hot measurements, memory delivers only the bytes that
    are no longer in the L2 cache (see `kept_bytes`). The result is None if the work or the ceilings are unknown.
    """
    if target.ceilings is None or work is None:
        return None
    hot = objective.cache == "hot"
    kept = kept_bytes(work.bytes, target.limits.get("l2_bytes", 0.0)) if hot else 0.0
    rate = target.ceilings.cache_bytes_per_s
    return roofline(work, target.ceilings, cached_bytes=kept, cache_bytes_per_s=rate)


def kept_bytes(read_bytes: float, cache_bytes: float) -> float:
    """Return how many of the bytes that a call reads are in a GPU's L2 cache at the next call; see `KEPT_WHOLE`."""
    if cache_bytes <= 0:
        return 0.0
    share = (KEPT_NOTHING - read_bytes / cache_bytes) / (KEPT_NOTHING - KEPT_WHOLE)
    return read_bytes * min(1.0, max(0.0, share))


_COLD_SHARE = 4
_LEAST_SET_BYTES = 1 << 16
"""Minimum size of a buffer set in bytes: guard bands and alignment of a few arrays."""


def cold_sets(cache_bytes: int, bytes_held: int, memory_bytes: int) -> int:
    """Return the number of buffer sets to use in rotation so that each is evicted from the cache before its next use.

    A buffer set is one copy of the kernel's arrays. The result is from 2 to `MOST_COLD_SETS`. If memory is short, it is
    smaller than the cache requires.

    Args:
        cache_bytes: size of the cache.
        bytes_held: size of one set. If even the maximum number of very small sets fits into the cache, the sets are
            evicted only from a smaller cache. The measurement then names this smaller cache.
        memory_bytes: memory that the runner may allocate. If the result is above 2, the sets use at most a quarter of
            this memory.
    """
    wanted = math.ceil(5 * cache_bytes / max(bytes_held, 1)) + 1
    affordable = memory_bytes // _COLD_SHARE // max(bytes_held, _LEAST_SET_BYTES)
    return max(2, min(wanted, affordable, MOST_COLD_SETS))
