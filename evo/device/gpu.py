"""Device limits and peak rates of a GPU, from its driver attributes."""

from collections.abc import Mapping

from evo.device import Ceilings

_NO_LIMITS = frozenset({"capability_major", "capability_minor", "clock_khz", "memory_clock_khz", "memory_bus_bits"})

# Operations per multiprocessor and clock, for dense matrices. A multiply-add counts as two operations. The float64
# rates of compute capabilities 8.0 and 9.0 are those of tensor cores.
# Source: CUDA C++ Programming Guide, "Arithmetic Instructions", and NVIDIA's architecture white papers.
_HALF = ("float16", "bfloat16")
_EIGHT_BITS = ("float8_e4m3", "float8_e5m2", "int8")
_PER_CLOCK: Mapping[int, Mapping[str, int]] = {
    75: {"float64": 4, "float32": 128, "float16": 1024, "int8": 2048},
    80: {"float64": 128, "float32": 128, **dict.fromkeys(_HALF, 2048), "int8": 4096},
    86: {"float64": 4, "float32": 256, **dict.fromkeys(_HALF, 1024), "int8": 2048},
    89: {"float64": 4, "float32": 256, **dict.fromkeys(_HALF, 1024), **dict.fromkeys(_EIGHT_BITS, 2048)},
    90: {"float64": 256, "float32": 256, **dict.fromkeys(_HALF, 4096), **dict.fromkeys(_EIGHT_BITS, 8192)},
    100: {"float64": 128, "float32": 256, **dict.fromkeys(_HALF, 8192), **dict.fromkeys(_EIGHT_BITS, 16384)},
    120: {"float64": 4, "float32": 256, **dict.fromkeys(_HALF, 1024), **dict.fromkeys(_EIGHT_BITS, 2048)},
}


# Results per multiprocessor and clock. Exponentials in base 2 and reciprocals are computed by special function
# units. A division needs a reciprocal. The values are equal from compute capability 7.5 to 12.0. Source: CUDA C++
# Programming Guide, "Throughput of Native Arithmetic Instructions".
_SPECIAL_PER_CLOCK: Mapping[str, int] = {"exponentials": 16, "divisions": 16, "conversions": 64}

_CACHE_BYTES_PER_CLOCK = 32
"""Assumed number of bytes that each multiprocessor reads from the L2 cache per clock.

Reads of 37 MB on an H100 reached 17 bytes, including launch gaps. The white papers of NVIDIA state at most 64 bytes.
"""


def limits(attributes: Mapping[str, int]) -> dict[str, float]:
    """Return `Device.limits` of a GPU. The names are those in `Kind.limits` of the kind ``cuda``."""
    found = {name: float(value) for name, value in attributes.items() if name not in _NO_LIMITS}
    return {**found, "compute_capability": float(capability(attributes))}


def ceilings(attributes: Mapping[str, int]) -> Ceilings:
    """Return a GPU's peak rates, computed from clock rates, number of multiprocessors and width of the memory bus.

    An architecture without rates in the table gets the rates of the nearest lower one. Below compute capability 7.5,
    the rates of arithmetic and of special operations are omitted.
    """
    known = [each for each in _PER_CLOCK if each <= capability(attributes)]
    per_clock = _PER_CLOCK[max(known)] if known else {}
    clocks_per_s = attributes["clock_khz"] * 1e3 * attributes["sm_count"]
    transfers_per_s = 2 * attributes["memory_clock_khz"] * 1e3
    cache_bytes_per_s = _CACHE_BYTES_PER_CLOCK * clocks_per_s
    return Ceilings(
        flops_per_s={dtype: flops * clocks_per_s for dtype, flops in per_clock.items()},
        bytes_per_s=transfers_per_s * attributes["memory_bus_bits"] / 8,
        source="table",
        cache_bytes_per_s=cache_bytes_per_s,
        special_per_s={name: results * clocks_per_s for name, results in _SPECIAL_PER_CLOCK.items()} if known else {},
        copies=((1.0, cache_bytes_per_s),),
    )


def capability(attributes: Mapping[str, int]) -> int:
    """Return the compute capability as one number, e.g. 89 for sm_89."""
    return attributes["capability_major"] * 10 + attributes["capability_minor"]
