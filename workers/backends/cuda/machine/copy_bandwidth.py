"""Copy bandwidth of GPUs, which is measured once per GPU and cached.

A separate process (`copy_process`) measures the bandwidth, because the daemon must never have a CUDA context.
"""

import math
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter

from evo.device import Device
from workers.build.cache import Cache, cache_key
from workers.system.device_lock import GaveUp, exclusive
from workers.system.exit_status import last_line
from workers.system.log import log

LEAST_SHARE = 0.5
"""A measured bandwidth below this fraction of the datasheet's bandwidth is discarded, because other programs must have
used the GPU."""

TIMEOUT_S = 20.0
"""Maximum seconds that `with_measured_copies` waits in total while other processes measure on the devices."""

_LIMIT_S = 120
_DEVICE = TypeAdapter(Device)


class CopyProcess:
    """A process that measures the copy bandwidth of one device. It loads its modules before it gets the device.

    Args:
        folder: folder for compiled kernels.
        size: number of bytes to copy, as text. If omitted, the process chooses it.
    """

    def __init__(self, folder: Path, *size: str) -> None:
        command = [sys.executable, "-m", "workers.backends.cuda.machine.copy_process", str(folder), *size]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        self.used = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def bytes_per_s(self, device: Device) -> float:
        """Return the copy bandwidth of a device in bytes per second, read plus written. Call this method only once.

        Raises:
            SubprocessError: the process failed, or took more than `_LIMIT_S` seconds.
            ValueError: the process printed no number.
        """
        self.used = True
        output, errors = self._process.communicate(_DEVICE.dump_json(device), timeout=_LIMIT_S)
        if code := self._process.returncode:
            raise subprocess.CalledProcessError(code, self._process.args, output, errors)
        return float(output)


def with_measured_copies(devices: Sequence[Device], folder: Path, process: CopyProcess | None = None) -> list[Device]:
    """Return the devices with their measured copy bandwidth as the peak rate of their memory.

    A device that cannot be measured now is returned unchanged, and the next call of this function tries again.

    Args:
        process: unused process that measures the first device whose bandwidth is not cached; None to start one.
    """
    until_s = time.monotonic() + TIMEOUT_S
    return [_with_measured_copy(each, folder, until_s, process) for each in devices]


def _with_measured_copy(device: Device, folder: Path, until_s: float, process: CopyProcess | None) -> Device:
    if device.ceilings is None:
        return device
    cache, key = Cache(folder), cache_key("copy", device.uuid, repr(sorted(device.software.items())))
    kept = cache.get(key)
    if kept is None:
        rate = _measured(device, folder, until_s=until_s, process=process)
        if rate is None or rate < LEAST_SHARE * device.ceilings.bytes_per_s:
            event = "no plausible memory bandwidth was measured; the value of the datasheet is used"
            log().warning(event, device=device.model, bytes_per_s=rate)
            return device
        kept = repr(rate).encode()
        cache.put(key, kept)
    return device.copying_at(float(kept))


def copy_us(device: Device, folder: Path, size: int) -> float | None:
    """Measure the duration in µs of a copy of `size` bytes with cold caches. Return None if it cannot be measured.

    The device is locked during the measurement.
    """
    rate = _measured(device, folder, str(size))
    return None if rate is None else 2 * size / rate * 1e6


def _measured(
    device: Device, folder: Path, *size: str, until_s: float = math.inf, process: CopyProcess | None = None
) -> float | None:
    try:
        with exclusive(device.uuid, unwanted=lambda: time.monotonic() > until_s):
            if process is not None and not process.used:
                return process.bytes_per_s(device)
            with CopyProcess(folder, *size) as own:
                return own.bytes_per_s(device)
    except GaveUp:
        log().warning("the memory bandwidth cannot be measured", reason="other processes measure on this device")
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        said = last_line((getattr(error, "stderr", None) or b"").decode(errors="replace"))
        log().warning("the memory bandwidth cannot be measured", reason=said or str(error))
    return None
