"""How fast the device could be at best: the floor that shares are measured against and no honest kernel goes below."""

import math
from dataclasses import dataclass
from typing import Literal

from evo.device import Ceilings, Device
from evo.family import Work
from evo.objective import Objective

CLOCK_TOLERANCE = 0.2
"""Of a datasheet's ceiling: turbo may lift the clock by about this fraction."""

MOST_COLD_SETS = 4096
"""Of buffers that cold calls rotate."""

MEASURED_TOLERANCE = 0.4
"""Of a measured ceiling, which other work on the machine may have lowered: 1.4 times as much was seen minutes later."""


@dataclass(frozen=True, kw_only=True)
class Roofline:
    """The least time a problem can take on a device.

    Attributes:
        floor_us: the larger of arithmetic time and memory time; 0.0 where neither is known to bind.
        bound: which of the two it is.
        tolerance: by which fraction of it the floor may be too high.

    Source: Williams, Waterman and Patterson, Roofline, Communications of the ACM 52(4) (2009), 65-76.
    """

    floor_us: float
    bound: Literal["compute", "memory"]
    tolerance: float = CLOCK_TOLERANCE

    def share(self, time_us: float) -> float:
        """Fraction of the limit a kernel of this time reaches: 1.0 is the floor itself."""
        return self.floor_us / time_us

    def impossible(self, time_us: float) -> bool:
        """Faster than the device can do the work, by more than its ceilings may be wrong."""
        return time_us < self.floor_us * (1.0 - self.tolerance)


def roofline(work: Work, ceilings: Ceilings, *, threads: int = 1, cached_bytes: float = 0.0) -> Roofline:
    """The floor of one problem under these ceilings.

    Args:
        work: arithmetic operations, bytes moved at least, and the dtype the arithmetic is done in. A dtype without a
            ceiling adds no arithmetic time: the floor is then the memory's alone.
        threads: CPU threads used; a bound must hold, so both rates are taken to grow with them.
        cached_bytes: what a cache can keep between calls and main memory therefore need not move.
    """
    rate = ceilings.flops_per_s.get(work.dtype)
    compute_us = 0.0 if rate is None else work.flops / (rate * threads) * 1e6
    memory_us = max(0.0, work.bytes - cached_bytes) / (ceilings.bytes_per_s * threads) * 1e6
    bound: Literal["compute", "memory"] = "compute" if compute_us >= memory_us else "memory"
    source = ceilings.source if bound == "compute" else ceilings.bytes_source or ceilings.source
    tolerance = MEASURED_TOLERANCE if source == "measured" else CLOCK_TOLERANCE
    return Roofline(floor_us=max(compute_us, memory_us), bound=bound, tolerance=tolerance)


def device_roofline(device: Device, work: Work | None, objective: Objective) -> Roofline | None:
    """The floor on this device under these terms; None where the family states no work or the device no ceilings.

    A hot measurement moves only what the last-level cache cannot keep. Where that level is not known it is taken to
    keep everything: a floor that is too high would refuse honest kernels.
    """
    if device.ceilings is None or work is None:
        return None
    level = "l2_bytes" if device.kind == "cuda" else "l3_bytes"
    cache_bytes = device.limits.get(level, math.inf)
    small = (
        work.bytes * MOST_COLD_SETS < cache_bytes
    )  # so many sets of it do not fill the cache: cold calls find it there
    kept = cache_bytes if objective.cache == "hot" or small else 0.0
    threads = objective.threads if device.kind == "cpu" else 1
    return roofline(work, device.ceilings, threads=threads, cached_bytes=kept)
