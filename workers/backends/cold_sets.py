"""How many sets of buffers a cold measurement rotates through."""

import math

from evo.estimate.roofline import MOST_COLD_SETS

_COLD_SHARE = 4
_LEAST_SET_BYTES = 1 << 16
"""What even the smallest set takes, with guard bands and alignment of a few arrays."""


def cold_sets(cache_bytes: int, bytes_held: int, memory_bytes: int) -> int:
    """Buffer sets to rotate so that none is in a cache of `cache_bytes` when its turn comes again; at least 2.

    Args:
        bytes_held: by one set. Very small sets are not made in the number it would take, so they stay in reach of the
            largest cache; what they are called cold from is told with the measurement.
        memory_bytes: what the runner may allocate, of which sets take a part.
    """
    wanted = math.ceil(5 * cache_bytes / max(bytes_held, 1)) + 1
    affordable = memory_bytes // _COLD_SHARE // max(bytes_held, _LEAST_SET_BYTES)
    return max(2, min(wanted, affordable, MOST_COLD_SETS))
