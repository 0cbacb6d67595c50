"""Check that a problem fits the memory of a device."""

import math
from collections.abc import Iterable

from evo.device import Device
from evo.device.requirements import GB
from evo.errors import InvalidInput
from evo.family.argument import JUDGED, Operand
from evo.reference.encoding import stored

_REFERENCE_BYTES = 8
"""Bytes of one element of a float64 reference result."""


def check_memory(operands: Iterable[Operand], device: Device) -> None:
    """Check that inputs, outputs and references fit the device's memory. A device that does not report its memory
    passes.

    Raises:
        InvalidInput: they do not fit; says how much they need.
    """
    needed = sum(_bytes(each) for each in operands)
    if device.memory_bytes is not None and needed > device.memory_bytes:
        raise InvalidInput(
            "problem",
            f"takes {needed / GB:,.1f} GB with its inputs, outputs and references, and {device.model} has "
            f"{device.memory_bytes / GB:,.1f} GB: choose a smaller one",
        )


def _bytes(operand: Operand) -> int:
    judged = _REFERENCE_BYTES if operand.role in JUDGED else 0
    return math.prod(operand.shape) * (stored(operand.dtype).itemsize + judged)
