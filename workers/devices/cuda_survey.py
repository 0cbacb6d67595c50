"""Which GPUs there are. Run as a program it prints them as JSON: the daemon must never hold a CUDA context."""

import json
import sys
from typing import Any

from workers.devices import DeviceUnfitError
from workers.devices.cuda_limits import ATTRIBUTES

NO_DRIVER = "there is no NVIDIA driver here: install one, or run the worker on the GPU's machine"


class CudaUnusableError(DeviceUnfitError):
    """The GPU or its driver cannot be used; the message says why and the way out."""


def survey(toolkit: tuple[int, int]) -> dict[str, Any]:
    """The ``gpus`` there are, or the ``obstacle`` to using any.

    Args:
        toolkit: whose binaries the driver is to load.
    """
    import cupy

    runtime = cupy.cuda.runtime
    if obstacle := _obstacle(runtime, toolkit):
        return {"gpus": [], "obstacle": obstacle}
    gpus = [
        {
            "name": runtime.getDeviceProperties(index)["name"].decode(),
            "uuid": _uuid(runtime, index),
            "memory_bytes": runtime.getDeviceProperties(index)["totalGlobalMem"],
            "attributes": {name: runtime.deviceGetAttribute(number, index) for name, number in ATTRIBUTES.items()},
            "software": {"cuda_driver": _version(runtime.driverGetVersion()), "cupy": cupy.__version__},
        }
        for index in range(runtime.getDeviceCount())
    ]
    return {"gpus": gpus, "obstacle": None}


def index_of(uuid: str) -> int:
    """The driver's present number of a GPU.

    Raises:
        CudaUnusableError: it is not there.
    """
    import cupy

    runtime = cupy.cuda.runtime
    for index in range(runtime.getDeviceCount()):
        if _uuid(runtime, index) == uuid:
            return index
    raise CudaUnusableError(f"{uuid}: there is no such GPU here any more; restart the worker")


def _uuid(runtime: Any, index: int) -> str:
    text = bytes(runtime.getDeviceProperties(index)["uuid"])[:16].hex()
    return "GPU-" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _obstacle(runtime: Any, toolkit: tuple[int, int]) -> str | None:
    driver = runtime.driverGetVersion()
    if not driver:
        return NO_DRIVER
    if driver // 1000 < toolkit[0]:
        way_out = f"update the driver, or install kernel-evo with the extra `cuda{driver // 1000}`"
        return (
            f"the NVIDIA driver supports CUDA {_version(driver)} and the installed toolkit is "
            f"{toolkit[0]}.{toolkit[1]}: {way_out}"
        )
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        return str(error)
    return None if count else "the NVIDIA driver finds no GPU"


def _version(number: int) -> str:
    """E.g. 12.2 for 12020."""
    return f"{number // 1000}.{number % 1000 // 10}"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(survey((int(sys.argv[1]), int(sys.argv[2])))))
