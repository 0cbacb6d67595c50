"""Energy meters as facts of a device: workers report a meter, and the service refuses metrics that need one."""

from evo.device import Device

ENERGY = "energy"
"""Key of a device's software: the name of its energy meter, or ``none: `` and the reason why it has none."""

_NONE = "none"


def without_meter(reason: str) -> str:
    """Return the fact of a device that has no energy meter."""
    return f"{_NONE}: {reason}"


def lacking_meter(device: Device) -> str | None:
    """Return why no energy can be measured on a device, with a remedy; None if it has a meter."""
    if device.runs != "kernels":
        remedy = "search on a device that runs kernels"
        return f"nothing runs on a device of kind {device.kind}, so it draws no energy: {remedy}"
    held = device.software.get(ENERGY)
    if held is None:
        return f"the worker reports no energy meter of {device.model}: update it, or search on another device"
    word, _, reason = held.partition(": ")
    return f"{device.model} has no energy meter: {reason}" if word == _NONE else None
