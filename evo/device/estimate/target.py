"""Known GPUs as targets, with their attributes as reported by CUDA.

A search can tune for such a GPU on a machine without it.

Sources: CUDA C++ Programming Guide, "Compute Capabilities", and NVIDIA's datasheets.
"""

from collections.abc import Mapping

from evo.device import Device
from evo.device.estimate.roofline import Roofline, device_roofline, stream_roofline
from evo.device.gpu import capability, ceilings, limits
from evo.device.requirements import GB
from evo.errors import NotFound
from evo.family import Work
from evo.text.suggestion import unknown
from evo.trial.objective import Objective

_COMMON = {"max_threads": 1024, "registers": 65536, "warp_size": 32}
_AMPERE_100 = {
    **_COMMON,
    "capability_major": 8,
    "capability_minor": 0,
    "sm_count": 108,
    "shared_memory_bytes": 166912,
    "shared_memory_per_sm_bytes": 167936,
    "max_threads_per_sm": 2048,
    "max_blocks_per_sm": 32,
    "l2_bytes": 40 << 20,
    "clock_khz": 1_410_000,
    "memory_clock_khz": 1_215_000,
    "memory_bus_bits": 5120,
}
_HOPPER = {
    **_COMMON,
    "capability_major": 9,
    "capability_minor": 0,
    "sm_count": 132,
    "shared_memory_bytes": 232448,
    "shared_memory_per_sm_bytes": 233472,
    "max_threads_per_sm": 2048,
    "max_blocks_per_sm": 32,
    "l2_bytes": 50 << 20,
    "clock_khz": 1_980_000,
    "memory_clock_khz": 2_619_000,
    "memory_bus_bits": 5120,
}
ATTRIBUTES_BY_MODEL: Mapping[str, Mapping[str, int]] = {
    "NVIDIA A100-SXM4-40GB": _AMPERE_100,
    "NVIDIA L4": {
        **_COMMON,
        "capability_major": 8,
        "capability_minor": 9,
        "sm_count": 58,
        "shared_memory_bytes": 101376,
        "shared_memory_per_sm_bytes": 102400,
        "max_threads_per_sm": 1536,
        "max_blocks_per_sm": 24,
        "l2_bytes": 48 << 20,
        "clock_khz": 2_040_000,
        "memory_clock_khz": 6_251_000,
        "memory_bus_bits": 192,
    },
    "NVIDIA H100 80GB HBM3": _HOPPER,
    "NVIDIA H200": {**_HOPPER, "l2_bytes": 60 << 20, "memory_clock_khz": 3_201_000, "memory_bus_bits": 6144},
}
"""Attributes of GPUs, by the model name that the driver reports.

The first GPU of an architecture represents the architecture.
"""
_MEMORY_GB: Mapping[str, int] = {
    "NVIDIA A100-SXM4-40GB": 40,
    "NVIDIA L4": 24,
    "NVIDIA H100 80GB HBM3": 80,
    "NVIDIA H200": 141,
}


def known(target: str) -> Device:
    """Return the GPU of a target, which is a model name or an architecture such as ``sm_89``.

    The returned device has only limits and ceilings; nothing can be measured on it.

    Raises:
        NotFound: the target is unknown. The message contains the closest name, and all models and architectures.
    """
    devices = [_device(model, attributes) for model, attributes in ATTRIBUTES_BY_MODEL.items()]
    for device in devices:
        if target in (device.model, device.architecture):
            return device
    raise NotFound(unknown(target, [*ATTRIBUTES_BY_MODEL, *{device.architecture for device in devices}], "targets"))


def architectures() -> tuple[str, ...]:
    """Return the architectures of all targets, e.g. ``sm_89``."""
    found = (_device(model, attributes).architecture for model, attributes in ATTRIBUTES_BY_MODEL.items())
    return tuple(dict.fromkeys(found))


def aimed_at(device: Device, objective: Objective) -> Device:
    """Return the device whose limits configs and builds must respect: the target if there is one, else `device`."""
    return device if objective.target is None else known(objective.target)


def compared_with(device: Device, objective: Objective) -> Device:
    """Return the device whose roofline applies: `device`, or the target if no kernel is timed."""
    return aimed_at(device, objective) if device.runs == "nothing" else device


def shown_roofline(device: Device, work: Work | None, objective: Objective) -> Roofline | None:
    """Return the roofline with which a search compares its times; None if the work or the ceilings are unknown.

    For estimates, it is the roofline from which the estimates are computed (`stream_roofline`).
    """
    compared = compared_with(device, objective)
    if device.runs == "nothing":
        return stream_roofline(compared, work, objective)
    return device_roofline(compared, work, objective)


def place_text(device: Device, objective: Objective) -> str:
    """Return text that names the device on which a time was measured or estimated.

    Examples: ``NVIDIA L4``; ``timed on NVIDIA H200 (sm_90), within the limits of NVIDIA L4 (sm_89)``; ``estimated for
    NVIDIA L4 (sm_89), never run``. The family's note on the device is appended: ``NVIDIA H200; E4M3 …``.
    """
    return "; ".join(filter(None, (_place(device, objective), device.note)))


def _place(device: Device, objective: Objective) -> str:
    if objective.target is None:
        return device.model
    target = _model_and_architecture(aimed_at(device, objective))
    estimated = device.runs == "nothing"
    return (
        f"estimated for {target}, never run"
        if estimated
        else f"timed on {_model_and_architecture(device)}, within the limits of {target}"
    )


def _model_and_architecture(device: Device) -> str:
    return f"{device.model} ({device.architecture})"


def _device(model: str, attributes: Mapping[str, int]) -> Device:
    return Device(
        kind="cuda",
        model=model,
        architecture=f"sm_{capability(attributes)}",
        uuid=f"target {model}",
        limits=limits(attributes),
        ceilings=ceilings(attributes),
        memory_bytes=_MEMORY_GB[model] * GB,
    )
