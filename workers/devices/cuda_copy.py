"""The copy bandwidth of a GPU, measured once for each unit and kept.

Run as a program it measures the device that it reads from standard input: the daemon must never hold a CUDA context.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from evo.device import Device
from workers.cache import Cache, cache_key
from workers.devices import Timer
from workers.lock import exclusive
from workers.log import log
from workers.obituary import last_line
from workers.timing import cold_sets

MOST_BYTES = 256 << 20
"""What is copied; less where that is more than a sixteenth of the device's memory."""

SAMPLES = 7
LEAST_SHARE = 0.5
"""Of the datasheet's rate: a GPU that reaches less is busy with something else, and is asked again next time."""

_LIMIT_S = 120
_DEVICE = TypeAdapter(Device)


def with_measured_copy(device: Device, folder: Path) -> Device:
    """The device with its own copy bandwidth among its ceilings; as it is where that cannot be measured."""
    if device.ceilings is None:
        return device
    cache, key = Cache(folder), cache_key("copy", device.uuid, repr(sorted(device.software.items())))
    kept = cache.get(key)
    if kept is None:
        rate = _measured(device, folder)
        if rate is None or rate < LEAST_SHARE * device.ceilings.bytes_per_s:
            log().warning("copy.not_measured", device=device.model, bytes_per_s=rate)
            return device
        kept = repr(rate).encode()
        cache.put(key, kept)
    return device.copying_at(float(kept))


def copy_us(device: Device, folder: Path, size: int) -> float | None:
    """What a copy of so many bytes takes now, past the caches; while nobody else measures here."""
    rate = _measured(device, folder, str(size))
    return None if rate is None else 2 * size / rate * 1e6


def _measured(device: Device, folder: Path, *size: str) -> float | None:
    command = [sys.executable, "-m", __name__, str(folder), *size]
    with exclusive(device.uuid):
        try:
            done = subprocess.run(
                command, input=_DEVICE.dump_json(device), capture_output=True, timeout=_LIMIT_S, check=True
            )
            return float(done.stdout)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            said = last_line((getattr(error, "stderr", None) or b"").decode(errors="replace"))
            log().warning("copy.failed", reason=said or str(error))
            return None


def copy_bytes(device: Device) -> int:
    """How much is copied at once."""
    share = MOST_BYTES if device.memory_bytes is None else device.memory_bytes // 16
    return min(MOST_BYTES, share) // 16 * 16


def copy_rate(ways: Sequence[Timer], size: int) -> float:
    """Bytes a second, read plus written, of the fastest way: the middle one of a few samples.

    Args:
        ways: to copy so many bytes, far more than the caches hold.
    """
    fastest_us = min(float(np.median([way.sample() for _ in range(SAMPLES)])) for way in ways)
    return 2 * size / (fastest_us * 1e-6)


def main() -> None:
    """Print the rate of the device on standard input."""
    from evo.objective import Objective
    from workers.devices.cuda import DRIVER

    device = _DEVICE.validate_json(sys.stdin.buffer.read())
    folder, *given = sys.argv[1:]
    size = int(given[0]) // 16 * 16 if given else copy_bytes(device)
    session = DRIVER.open(device, Objective(), Path(folder))
    sets = cold_sets(session.cold_bytes, 2 * size, device.memory_bytes or sys.maxsize)
    sys.stdout.write(repr(copy_rate(session.copies(size, sets), size)))


if __name__ == "__main__":
    main()
