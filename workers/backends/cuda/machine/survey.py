"""Lists the GPUs. The daemon must never have a CUDA context, so it runs this module in a separate process."""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from workers.backends import DeviceUnfitError
from workers.system.exit_status import ended, last_line

NO_DRIVER = "this machine has no NVIDIA driver; install one, or run the worker on the machine with the GPU"
_LIMIT_S = 120

ATTRIBUTES: Mapping[str, int] = {
    "sm_count": 16,
    "shared_memory_bytes": 97,
    "shared_memory_per_sm_bytes": 81,
    "max_threads": 1,
    "max_threads_per_sm": 39,
    "max_blocks_per_sm": 106,
    "registers": 12,
    "l2_bytes": 38,
    "warp_size": 10,
    "capability_major": 75,
    "capability_minor": 76,
    "clock_khz": 13,
    "memory_clock_khz": 36,
    "memory_bus_bits": 37,
}
"""Numbers of the queried attributes in CUDA's ``cudaDeviceAttr``, by kernel-evo's name of the attribute."""


class CudaUnusableError(DeviceUnfitError):
    """The GPU or its driver cannot be used. The message contains the reason and a remedy."""


def surveyed(toolkit: tuple[int, int]) -> dict[str, Any]:
    """Run `survey` in a separate process, and return its result. If the process fails, ``obstacle`` states why."""
    command = [sys.executable, "-m", "workers.backends.cuda.machine.survey", *map(str, toolkit)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return _no_gpus(f"looking for GPUs took more than {_LIMIT_S} s; check whether `nvidia-smi` responds")
    except OSError as error:
        return _no_gpus(f"looking for GPUs failed: {error}")
    if done.returncode:
        return _no_gpus(f"looking for GPUs failed: {last_line(done.stderr) or ended(done.returncode)}")
    return dict(json.loads(done.stdout))


def survey(toolkit: tuple[int, int]) -> dict[str, Any]:
    """Return a dict with the usable ``gpus``, and with the reason why other GPUs are unusable (``obstacle``, or None).

    Args:
        toolkit: CUDA version of the installed compiler. The driver must support binaries of this version.
    """
    try:
        import cupy
    except Exception as error:  # noqa: BLE001 - the import loads libraries, which raise various exceptions
        remedy = f"reinstall kernel-evo with the extra `cuda{toolkit[0]}`"
        return _no_gpus(f"CuPy cannot be imported: {last_line(str(error)) or repr(error)}; {remedy}")
    runtime = cupy.cuda.runtime
    if obstacle := _obstacle(runtime, toolkit):
        return _no_gpus(obstacle)
    software = {"cuda_driver": _version(runtime.driverGetVersion()), "cupy": cupy.__version__}
    gpus, faults = [], []
    for index in range(runtime.getDeviceCount()):
        try:
            gpus.append({**_attributes_of(runtime, index), "software": software})
        except runtime.CUDARuntimeError as error:
            faults.append(_fault(index, error))
    return {"gpus": gpus, "obstacle": "; ".join(faults) or None}


def _no_gpus(obstacle: str) -> dict[str, Any]:
    return {"gpus": [], "obstacle": obstacle}


def index_of(uuid: str) -> int:
    """Return the current index of a GPU in the driver's list.

    Raises:
        CudaUnusableError: the GPU is absent or does not respond.
    """
    import cupy

    runtime, faults = cupy.cuda.runtime, []
    for index in range(runtime.getDeviceCount()):
        try:
            if _uuid(runtime, index) == uuid:
                return index
        except runtime.CUDARuntimeError as error:
            faults.append(_fault(index, error))
    gone = f"{uuid}: this GPU is no longer in the machine; restart the worker"
    raise CudaUnusableError("; ".join([gone, *faults]))


def _attributes_of(runtime: Any, index: int) -> dict[str, Any]:
    properties = runtime.getDeviceProperties(index)
    return {
        "name": properties["name"].decode(),
        "uuid": _uuid(runtime, index),
        "memory_bytes": properties["totalGlobalMem"],
        "attributes": {name: runtime.deviceGetAttribute(number, index) for name, number in ATTRIBUTES.items()},
    }


def _fault(index: int, error: Exception) -> str:
    return f"GPU {index} cannot be used: {last_line(str(error))} (`nvidia-smi` may give more information)"


def _uuid(runtime: Any, index: int) -> str:
    text = bytes(runtime.getDeviceProperties(index)["uuid"])[:16].hex()
    return "GPU-" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _obstacle(runtime: Any, toolkit: tuple[int, int]) -> str | None:
    driver = runtime.driverGetVersion()
    if not driver:
        return NO_DRIVER
    if driver // 1000 < toolkit[0]:
        remedy = f"update the driver, or install kernel-evo with the extra `cuda{driver // 1000}`"
        return (
            f"the NVIDIA driver supports CUDA {_version(driver)}, but the installed toolkit is "
            f"{toolkit[0]}.{toolkit[1]}; {remedy}"
        )
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        return str(error)
    return None if count else "the NVIDIA driver finds no GPU; check whether `nvidia-smi -L` lists it"


def _version(number: int) -> str:
    """Return a CUDA version number as text, e.g. 12.2 for 12020."""
    return f"{number // 1000}.{number % 1000 // 10}"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(survey((int(sys.argv[1]), int(sys.argv[2])))))
