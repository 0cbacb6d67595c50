"""Number of buffer sets that a cold measurement uses in turn."""

import math

from evo.device.estimate.roofline import MOST_COLD_SETS

_COLD_SHARE = 4
_LEAST_SET_BYTES = 1 << 16
"""Smallest size of a set in bytes: guard bands and alignment of a few arrays."""


def cold_sets(cache_bytes: int, bytes_held: int, memory_bytes: int) -> int:
    """Return the number of sets, so that none is in a cache of `cache_bytes` when its turn comes again; at least 2.

    Args:
        bytes_held: size of one set. The number of sets is limited, so very small sets stay in the largest cache; the
            measurement states the cache in which they are cold.
        memory_bytes: memory that the runner may allocate; the sets may use a part of it.
    """
    wanted = math.ceil(5 * cache_bytes / max(bytes_held, 1)) + 1
    affordable = memory_bytes // _COLD_SHARE // max(bytes_held, _LEAST_SET_BYTES)
    return max(2, min(wanted, affordable, MOST_COLD_SETS))
