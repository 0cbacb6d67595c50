"""The copy bandwidth of a GPU, measured once for each unit and kept.

The program `cuda_copying` measures it: the daemon must never hold a CUDA context.
"""

import math
import subprocess
import sys
import time
from pathlib import Path

from pydantic import TypeAdapter

from evo.device import Device
from workers.cache import Cache, cache_key
from workers.lock import GaveUp, exclusive
from workers.log import log
from workers.obituary import last_line

LEAST_SHARE = 0.5
"""Of the datasheet's rate: a GPU that reaches less is busy with something else, and is asked again next time."""

PATIENCE_S = 20.0
"""For a device that somebody measures on: whoever waits for this worker gives it up after a minute."""

_LIMIT_S = 120
_DEVICE = TypeAdapter(Device)


def with_measured_copy(device: Device, folder: Path) -> Device:
    """The device with its own copy bandwidth among its ceilings.

    As it is where that cannot be measured now: it is then asked again next time.
    """
    if device.ceilings is None:
        return device
    cache, key = Cache(folder), cache_key("copy", device.uuid, repr(sorted(device.software.items())))
    kept = cache.get(key)
    if kept is None:
        rate = _measured(device, folder, patience_s=PATIENCE_S)
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


def _measured(device: Device, folder: Path, *size: str, patience_s: float = math.inf) -> float | None:
    command = [sys.executable, "-m", "workers.devices.cuda_copying", str(folder), *size]
    given_up_s = time.monotonic() + patience_s
    try:
        with exclusive(device.uuid, unwanted=lambda: time.monotonic() > given_up_s):
            done = subprocess.run(
                command, input=_DEVICE.dump_json(device), capture_output=True, timeout=_LIMIT_S, check=True
            )
            return float(done.stdout)
    except GaveUp:
        log().warning("copy.failed", reason=f"others measured on this device for {patience_s:g} s")
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        said = last_line((getattr(error, "stderr", None) or b"").decode(errors="replace"))
        log().warning("copy.failed", reason=said or str(error))
    return None
