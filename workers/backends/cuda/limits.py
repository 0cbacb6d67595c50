"""Attributes that are read when a GPU is discovered; `evo.device.gpu` interprets them."""

from collections.abc import Mapping

ATTRIBUTES: Mapping[str, int] = {
    "sm_count": 16,
    "shared_memory_bytes": 97,
    "shared_memory_per_sm_bytes": 81,
    "max_threads": 1,
    "max_threads_per_sm": 39,
    "max_blocks_per_sm": 106,
    "registers": 12,
    "l2_bytes": 38,
    "warp_size": 10,
    "capability_major": 75,
    "capability_minor": 76,
    "clock_khz": 13,
    "memory_clock_khz": 36,
    "memory_bus_bits": 37,
}
"""Queried attributes: our name → number in ``cudaDeviceAttr``."""
