"""Reads facts about a GPU from NVIDIA's management library (NVML): clocks, temperature, throttling, energy, processes.

NVML opens no CUDA context. If the library is missing, the functions return None or empty results.
"""

import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

import workers
from workers.backends.energy import NoMeterError

_HARMLESS_REASONS = 0x1  # value of the bit mask of throttle reasons if the GPU is idle
_OURS = Path(workers.__file__).parent
"""Folder of the package `workers`. Processes that run one of its modules do not disturb timing, because kernel-evo
measures in one process at a time.
"""


def facts(uuid: str) -> Mapping[str, str]:
    """Return clocks, temperature, throttling and other current facts about a GPU, by name, without unknown facts."""
    nvml, handle = _handle(uuid)
    if handle is None:
        return {}
    found = {
        "sm_mhz": _try(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
        "memory_mhz": _try(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM),
        "temperature_c": _try(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
        "throttle_reasons": _throttling(_try(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)),
        "driver": _try(nvml.nvmlSystemGetDriverVersion),
        "shared_with": ", ".join(_strangers(nvml, handle)) or None,
    }
    return {name: str(value) for name, value in found.items() if value is not None}


def installed() -> str | None:
    """Return a string that identifies the driver and all GPUs, or None if NVML finds no GPU or does not respond."""
    nvml = _library()
    driver, count = (None, None) if nvml is None else (_try(nvml.nvmlSystemGetDriverVersion), _count(nvml))
    if driver is None or not count:
        return None
    handles = [_try(nvml.nvmlDeviceGetHandleByIndex, index) for index in range(count)]
    uuids = [None if handle is None else _try(nvml.nvmlDeviceGetUUID, handle) for handle in handles]
    return None if None in uuids else " ".join(map(_text, [driver, *uuids]))


def _count(nvml: Any) -> int | None:
    count: int | None = _try(nvml.nvmlDeviceGetCount)
    return count


def strangers(uuid: str) -> tuple[str, ...]:
    """Return the programs that compute on a GPU, except those of kernel-evo, e.g. ``process 123 (python)``."""
    nvml, handle = _handle(uuid)
    return () if handle is None else tuple(_strangers(nvml, handle))


def energy_mj(uuid: str) -> float | None:
    """Return the energy in millijoules that a GPU has consumed since its driver was loaded, or None if unknown."""
    nvml, handle = _handle(uuid)
    return None if handle is None else _try(nvml.nvmlDeviceGetTotalEnergyConsumption, handle)


def _throttling(reasons: int | None) -> str | None:
    return None if reasons is None else f"{reasons & ~_HARMLESS_REASONS:#x}"


def _strangers(nvml: Any, handle: Any) -> Iterator[str]:
    for process in _try(nvml.nvmlDeviceGetComputeRunningProcesses, handle) or ():
        if process.pid == os.getpid() or _is_ours(process.pid):
            continue
        name = _try(nvml.nvmlSystemGetProcessName, process.pid)
        yield f"process {process.pid}" + (f" ({Path(_text(name)).name})" if name else "")


def _text(name: str | bytes) -> str:
    """Return a name as a string. Old releases of NVML's Python package return names as bytes."""
    return name.decode(errors="replace") if isinstance(name, bytes) else name


def _is_ours(pid: int) -> bool:
    try:
        command = psutil.Process(pid).cmdline()
    except psutil.Error:  # the process belongs to another user or container
        return False
    return any(flag == "-m" and _is_own_module(module) for flag, module in pairwise(command))


def _is_own_module(module: str) -> bool:
    """Return True if this name belongs to a module of kernel-evo's package `workers`.

    Other programs may also have a package named `workers`, so the file of the module must exist in `_OURS`.
    """
    package, *names = module.split(".")
    return package == _OURS.name and bool(names) and _OURS.joinpath(*names).with_suffix(".py").is_file()


def _try(function: Any, *arguments: Any) -> Any:
    """Return the result of a query, or None if this GPU or driver does not support the query."""
    import pynvml

    try:
        return function(*arguments)
    except pynvml.NVMLError:
        return None


def _handle(uuid: str) -> tuple[Any, Any]:
    nvml = _library()
    return nvml, None if nvml is None else _try(nvml.nvmlDeviceGetHandleByUUID, uuid)


@lru_cache(maxsize=1)
def _library() -> Any:
    """Return NVML, or None if it cannot be opened. The library is opened once per process, because opening is slow."""
    try:
        import pynvml as nvml

        nvml.nvmlInit()
    except ImportError:
        return None
    except nvml.NVMLError:
        return None
    return nvml


SPAN_S = 0.5
"""Minimum seconds of calls per sample. The energy counter advances up to ten times per second."""

_UJ_PER_MJ = 1e3


class NvmlMeter:
    """Energy meter of a GPU's whole board.

    Raises:
        NoMeterError: NVML does not respond, or the GPU does not count energy.
    """

    span_s = SPAN_S

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self.name = "NVML total energy"
        self.read_uj()

    def read_uj(self) -> float:
        found_mj = energy_mj(self._uuid)
        if found_mj is None:
            raise NoMeterError(
                "NVML does not report the energy of this GPU; install nvidia-ml-py (included in the extras cuda12 and "
                "cuda13), and use a GPU of the Volta generation or newer that is not a virtual GPU"
            )
        return found_mj * _UJ_PER_MJ
