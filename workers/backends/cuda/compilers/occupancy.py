"""Theoretical occupancy: the fraction of a multiprocessor's warps that can be resident.

The granularities and the register allocation are those of NVIDIA's occupancy calculator, `cuda_occupancy.h` of the CUDA
toolkit (`cudaOccMaxBlocksPerSMRegsLimit`). All other numbers are from the CUDA C++ Programming Guide, "Compute
Capabilities".
"""

from collections.abc import Mapping

_REGISTER_UNIT = 256
_PARTITIONS = 4
"""Number of partitions of a multiprocessor since compute capability 7.0. Each partition has a quarter of the
registers."""

_SHARED_UNIT = 128
_SHARED_RESERVED_BYTES = 1024
_WARP = 32


def blocks_per_sm(registers: int, shared_memory_bytes: int, threads: int, limits: Mapping[str, float]) -> int:
    """Return the number of blocks of a kernel that can be resident on a multiprocessor, or 0 if no block can.

    A multiprocessor has four partitions, and all registers of a warp are in one partition. The number of warps is
    therefore four times the number that fits into one partition.

    Args:
        registers: registers per thread.
        shared_memory_bytes: static and dynamic shared memory per block in bytes.
        threads: threads per block.
        limits: limits of the device (`evo.device.Device.limits`). For missing limits, typical values are used.
    """
    if threads == 0:
        return 0
    warps = -(-threads // _WARP)
    of_registers = limits.get("registers", 65536)
    if registers_of_block(registers, threads) > of_registers:
        return 0
    of_shared = -(-shared_memory_bytes // _SHARED_UNIT) * _SHARED_UNIT + _SHARED_RESERVED_BYTES
    shares = [
        limits.get("max_threads_per_sm", 2048) // (warps * _WARP),
        limits.get("max_blocks_per_sm", 32),
        of_registers // _PARTITIONS // max(_registers_of_warp(registers), 1) * _PARTITIONS // warps,
        limits.get("shared_memory_per_sm_bytes", float("inf")) // of_shared,
    ]
    return int(min(shares))


def registers_of_block(registers: int, threads: int) -> int:
    """Return the number of registers that a launch needs for one block.

    The number of warps is rounded up to a multiple of 4, the number of partitions of a multiprocessor. If the result
    exceeds the device's limit, a launch fails.

    Args:
        registers: registers per thread.
        threads: threads per block.
    """
    warps = -(-threads // _WARP)
    return _registers_of_warp(registers) * -(-warps // _PARTITIONS) * _PARTITIONS


def _registers_of_warp(registers: int) -> int:
    return -(-registers * _WARP // _REGISTER_UNIT) * _REGISTER_UNIT


def occupancy(registers: int, shared_memory_bytes: int, threads: int, limits: Mapping[str, float]) -> float:
    """Return the fraction of a multiprocessor's warps that can be resident, 0 to 1. See `blocks_per_sm`."""
    resident = blocks_per_sm(registers, shared_memory_bytes, threads, limits) * -(-threads // _WARP)
    return resident / (limits.get("max_threads_per_sm", 2048) / _WARP)
