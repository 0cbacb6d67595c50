"""Devices: where configs are compiled and measured."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from evo.device.kind import DeviceKind, Kind, Runs, kind_of, kinds

__all__ = ["Ceilings", "Device", "DeviceKind", "Kind", "kind_of", "kinds"]


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """Physical limits of a device, from which a roofline is computed.

    Attributes:
        flops_per_s: peak arithmetic operations per second, by dtype (``float32``, ``float16`` …). For a CPU, the rate
            of one thread.
        bytes_per_s: sustained copy bandwidth of main memory in bytes per second, reads plus writes. For a CPU, the rate
            of one thread.
        source: ``measured`` if the limits were measured on this device, ``table`` if they are from a datasheet.
        bytes_source: source of `bytes_per_s`, None if it equals `source`.
        cache_bytes_per_s: bandwidth of a GPU's L2 cache, summed over all multiprocessors; None if unknown.
        special_per_s: exponentials, divisions and conversions per second, by name. For a CPU, the rates of one thread.
        copies: rates of repeated copies, as pairs of the size in bytes and the rate in bytes per second (reads plus
            writes), ascending by size. For a CPU, the rates of one thread. A copy whose size is between two entries is
            at most as fast as the smaller entry.
    """

    flops_per_s: Mapping[str, float]
    bytes_per_s: float
    source: Literal["measured", "table"]
    bytes_source: Literal["measured", "table"] | None = None
    cache_bytes_per_s: float | None = None
    special_per_s: Mapping[str, float] = field(default_factory=dict)
    copies: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Device:
    """One device of one machine, as found by a worker.

    Attributes:
        model: model name, e.g. ``NVIDIA L4`` or the CPU's name. Only times of equal models are comparable.
        architecture: compiler target, e.g. ``sm_89`` or ``x86_64+avx512``; only a label for kinds that run no kernels.
        uuid: identifier of this physical device. An OS lock ensures that only one process at a time measures on it.
        limits: numbers that constraints may use, by name, in base units: ``cores``, ``simd_bytes``, ``l1_bytes``,
            ``l2_bytes``; for CUDA ``sm_count``, ``shared_memory_bytes`` (per block), ``max_threads`` (per block) …
        ceilings: physical limits, from which rooflines are computed; None if they are unknown.
        software: versions of the compiler, the driver and libraries, by name. They are recorded with every measurement.
        memory_bytes: total memory of the device, None if the device does not report it.
        note: the family's note on times from this device, e.g. a limitation. Only a search's copy of the device has a
            note. It is shown with the device's name.
    """

    kind: DeviceKind
    model: str
    architecture: str
    uuid: str
    limits: Mapping[str, float] = field(default_factory=dict)
    ceilings: Ceilings | None = None
    software: Mapping[str, str] = field(default_factory=dict)
    memory_bytes: int | None = None
    note: str = ""

    @property
    def runs(self) -> Runs:
        """How the device evaluates kernels: it runs them, looks up recorded results, or only compiles them."""
        return kind_of(self.kind).runs

    def copying_at(self, bytes_per_s: float) -> "Device":
        """Return a copy of the device with a measured copy bandwidth, or the device itself if it has no ceilings."""
        if self.ceilings is None:
            return self
        return replace(self, ceilings=replace(self.ceilings, bytes_per_s=bytes_per_s, bytes_source="measured"))


ENERGY = "energy"
"""Key in `Device.software`. The value is the name of the energy meter, or ``none: `` and the reason why there is none.
"""

_NONE = "none"


def without_meter(reason: str) -> str:
    """Return the text that a worker reports under the key ``energy`` if a device has no energy meter."""
    return f"{_NONE}: {reason}"


def lacking_meter(device: Device) -> str | None:
    """Return the reason why energy cannot be measured on a device, with a remedy; None if the device has a meter."""
    if device.runs != "kernels":
        remedy = "search on a device that runs kernels"
        return f"energy cannot be measured on a device of kind {device.kind}, which runs no kernels; {remedy}"
    meter = device.software.get(ENERGY)
    if meter is None:
        return f"the worker reports no energy meter of {device.model}: update the worker, or search on another device"
    word, _, reason = meter.partition(": ")
    return f"{device.model} has no energy meter: {reason}" if word == _NONE else None
