"""Measures the copy bandwidth of a GPU. ``python -m`` runs this module in a separate process."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from evo.device import Device
from evo.device.estimate.roofline import cold_sets
from evo.trial.objective import Objective
from workers.backends import Timer
from workers.backends.cuda.device import DRIVER

MOST_BYTES = 256 << 20
"""Maximum size of a copy in bytes. A copy is also at most a sixteenth of the device's memory."""

SAMPLES = 7


def copy_bytes(device: Device) -> int:
    """Return the number of bytes that one timed copy copies on this device."""
    share = MOST_BYTES if device.memory_bytes is None else device.memory_bytes // 16
    return min(MOST_BYTES, share) // 16 * 16


def copy_rate(ways: Sequence[Timer], size: int) -> float:
    """Return the bandwidth of the fastest method of copying, in bytes per second, read plus written.

    Args:
        ways: one timer of copies per method. The median of `SAMPLES` samples is used.
        size: number of bytes that a timed call copies.
    """
    fastest_us = min(float(np.median([way.sample() for _ in range(SAMPLES)])) for way in ways)
    return 2 * size / (fastest_us * 1e-6)


def main() -> None:
    """Read the description of a device from standard input, and print its copy bandwidth.

    The modules and the driver are loaded before the description is read.

    Command-line arguments: a folder for compiled kernels and, optionally, the number of bytes to copy.
    """
    with suppress(Exception):  # opening the device reports the error
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    device = TypeAdapter(Device).validate_json(sys.stdin.buffer.read())
    folder, *given = sys.argv[1:]
    size = int(given[0]) // 16 * 16 if given else copy_bytes(device)
    session = DRIVER.open(device, Objective(), Path(folder))
    sets = cold_sets(session.cold_bytes, 2 * size, device.memory_bytes or sys.maxsize)
    sys.stdout.write(repr(copy_rate(session.copies(size, sets), size)))


if __name__ == "__main__":
    main()
