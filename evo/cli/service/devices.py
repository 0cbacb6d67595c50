"""Finds the devices of this machine, for commands that need no service."""

import sys
import tempfile
from pathlib import Path

from evo.device import Device
from evo.device.kind import implemented_kinds
from evo.errors import EvoError, NotFound
from evo.family import Family
from evo.text.suggestion import closest

_TRIAL_BYTES = 1 << 16
"""Number of bytes that must be writable, about the size of a binary. A disk with less space counts as full."""


def cache_folder() -> Path:
    """Return the cache folder of this machine's workers."""
    from platformdirs import user_cache_path

    return user_cache_path("kernel-evo", appauthor=False)


def cache_trouble() -> str | None:
    """Return why this machine's workers cannot write their cache, with a remedy; None if they can write it."""
    folder = cache_folder()
    if (reason := unwritable(folder)) is None:
        return None
    return (
        f"The cache folder {folder} cannot be written ({reason}): no result is lost, but every kernel is compiled "
        "again in each run. Make the folder writable, free some space, or name another folder with XDG_CACHE_HOME."
    )


def unwritable(folder: Path) -> str | None:
    """Return the reason why no file can be written in a folder; None if files can be written.

    The check writes a file, because permissions do not reveal a full disk.
    """
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    try:
        with tempfile.TemporaryFile(dir=existing) as trial:
            trial.write(bytes(_TRIAL_BYTES))
    except OSError as error:
        return error.strerror or str(error)
    return None


def local_devices() -> list[Device]:
    """Return every device of this machine, except devices whose libraries are missing.

    A kind whose devices cannot be examined is reported on standard error if devices of other kinds are found.

    Raises:
        EvoError: the devices of a kind cannot be examined, and there are no others.
    """
    from api.operations.logs import configure
    from workers.backends.discovery import discovered

    configure("console", "error")  # callers report missing devices themselves
    found = discovered(implemented_kinds(), cache_folder())
    for kind, fault in found.faults.items():
        print(f"Devices of kind {kind} are not available: {fault}", file=sys.stderr)
    return list(found.devices)


def choose(devices: list[Device], wanted: str, family: Family) -> Device:
    """Return the first device that matches the request and can run the family.

    Args:
        wanted: ``auto``, a device kind, or the beginning of a device model.

    Raises:
        NotFound: no device fits.
        EvoError: the family and the request need a CPU, but no C compiler works; or they need a GPU, but none is
            usable.
    """
    for device in devices:
        if device.kind in family.implementations and _is(device, wanted):
            return device
    require_compiler(family, wanted)
    here = ", ".join(f"{device.kind} ({device.model})" for device in devices) or "none"
    runs_on = ", ".join(family.implementations)
    meant = None if wanted in family.implementations else closest(wanted, family.implementations)
    remedy = "" if meant is None else f"; write --device {meant}"
    raise NotFound(
        f"no device fits --device {wanted}; {family.name} runs on {runs_on}, and this machine has these devices: "
        f"{here}{remedy}"
    )


def require_compiler(family: Family, wanted: str) -> None:
    """Check that this machine has the software that the requested device needs for a family.

    Raises:
        EvoError: there is no working compiler, or no usable GPU.
    """
    from workers.backends.cpu.compiler import CCompiler, find_compiler
    from workers.backends.cuda.compilers.nvrtc import NvrtcCompiler

    runs_on = family.implementations
    if wanted == "estimate":
        NvrtcCompiler()
    if "cuda" in runs_on and (wanted == "cuda" or (wanted == "auto" and "cpu" not in runs_on)):
        _require_gpu()
    if "cpu" in runs_on and wanted in ("auto", "cpu"):
        CCompiler(find_compiler()).product  # noqa: B018 - asking is the check


def _require_gpu() -> None:
    from workers.backends.cuda.device import DRIVER

    usable, obstacle = DRIVER.look()
    if not usable and obstacle is not None:
        remedy = "`kernel-evo search FAMILY --target sm_89 --compile-only` compiles and estimates configs without a GPU"
        raise EvoError(f"no GPU can be used: {obstacle}; {remedy}")


def _is(device: Device, wanted: str) -> bool:
    return wanted in ("auto", device.kind) or device.model.lower().startswith(wanted.lower())
