"""Caches the list of GPUs, because listing them takes seconds."""

import os
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import TypeAdapter

from evo.device import Device
from workers.backends.cuda.machine import nvml
from workers.build.cache import Cache, cache_key

_DEVICES = TypeAdapter(list[Device])
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
_PACKAGES = ("kernel-evo", "cupy-cuda12x", "cupy-cuda13x", "cupy")


def kept_survey(folder: Path, compiler: str, survey: Callable[[], tuple[list[Device], bool]]) -> list[Device]:
    """Return the cached list of GPUs if driver, GPUs and software are unchanged. Otherwise list the GPUs again.

    Nothing is cached if NVML does not respond or finds no GPU, because changes would not be noticed.

    Args:
        folder: cache folder of the worker.
        compiler: version of the compiler, which is part of the cache key.
        survey: function that returns the list of usable GPUs, and True if all GPUs are usable. The list is cached only
            if all GPUs are usable, and there is at least one.
    """
    installed = nvml.installed()
    if installed is None:
        return survey()[0]
    visible = [os.environ.get(name, "") for name in _VISIBLE]
    cache, key = Cache(folder), cache_key("gpus", installed, compiler, *map(_version, _PACKAGES), *visible)
    if (kept := cache.get(key)) is not None:
        return _DEVICES.validate_json(kept)
    found, complete = survey()
    if found and complete:
        cache.put(key, _DEVICES.dump_json(found))
    return found


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
