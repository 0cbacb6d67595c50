"""Library that a reference computes with."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from evo.reference.library import LARGE_FLOPS, array_library, host_only


def cupy(devices: int | Exception) -> ModuleType:
    def count() -> int:
        if isinstance(devices, Exception):
            raise devices
        return devices

    module = ModuleType("cupy")
    module.cuda = SimpleNamespace(runtime=SimpleNamespace(getDeviceCount=count))  # type: ignore[attr-defined]
    return module


def test_large_work_uses_the_gpu_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    there = cupy(1)
    monkeypatch.setitem(sys.modules, "cupy", there)
    assert array_library(LARGE_FLOPS) is there
    assert array_library(1e9, large=1e9) is there
    assert array_library(LARGE_FLOPS - 1) is np


def test_gpu_is_left_alone_while_another_process_measures_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", there := cupy(1))
    with host_only():
        assert array_library(LARGE_FLOPS) is np
    assert array_library(LARGE_FLOPS) is there


@pytest.mark.parametrize("obstacle", [None, cupy(RuntimeError("no driver"))])
def test_cores_are_used_without_a_gpu(monkeypatch: pytest.MonkeyPatch, obstacle: ModuleType | None) -> None:
    monkeypatch.setitem(sys.modules, "cupy", obstacle)
    assert array_library(LARGE_FLOPS) is np
