"""Theoretical occupancy: how many of a multiprocessor's warps can be resident.

Source: CUDA C++ Programming Guide, "Compute Capabilities"; granularities as in NVIDIA's occupancy calculator.
"""

from collections.abc import Mapping

_REGISTER_UNIT = 256
_SHARED_UNIT = 128
_SHARED_RESERVED_BYTES = 1024
_WARP = 32


def blocks_per_sm(registers: int, shared_memory_bytes: int, threads: int, limits: Mapping[str, float]) -> int:
    """Blocks of one kernel a multiprocessor holds at once; 0 when not even one fits.

    Args:
        registers: per thread.
        shared_memory_bytes: static and dynamic, per block.
        threads: per block.
        limits: of the device, see `evo.family.LIMITS`; an absent one does not bind.
    """
    if threads == 0:
        return 0
    warps = -(-threads // _WARP)
    of_registers = -(-registers * _WARP // _REGISTER_UNIT) * _REGISTER_UNIT * warps
    of_shared = -(-shared_memory_bytes // _SHARED_UNIT) * _SHARED_UNIT + _SHARED_RESERVED_BYTES
    shares = [
        limits.get("max_threads_per_sm", 2048) // (warps * _WARP),
        limits.get("max_blocks_per_sm", 32),
        limits.get("registers", 65536) // max(of_registers, 1),
        limits.get("shared_memory_per_sm_bytes", float("inf")) // of_shared,
    ]
    return int(min(shares))


def occupancy(registers: int, shared_memory_bytes: int, threads: int, limits: Mapping[str, float]) -> float:
    """Resident warps as a share of what the multiprocessor can hold, 0 to 1."""
    resident = blocks_per_sm(registers, shared_memory_bytes, threads, limits) * -(-threads // _WARP)
    return resident / (limits.get("max_threads_per_sm", 2048) / _WARP)
