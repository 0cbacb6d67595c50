"""What a user is told when GPUs are missing or cannot be used; CuPy is a stand-in, so no GPU takes part."""

import sys
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import pytest

from workers.devices import cuda
from workers.devices.cuda_limits import ATTRIBUTES
from workers.devices.cuda_survey import NO_DRIVER, survey


class CUDARuntimeError(RuntimeError):
    status = 35


def fake_cupy(driver: int, names: tuple[str, ...] = (), error: str | None = None) -> ModuleType:
    def count() -> int:
        if error:
            raise CUDARuntimeError(error)
        return len(names)

    runtime = SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError,
        driverGetVersion=lambda: driver,
        getDeviceCount=count,
        getDeviceProperties=lambda index: {
            "name": names[index].encode(),
            "uuid": bytes(range(16)),
            "totalGlobalMem": 24 << 30,
        },
        deviceGetAttribute=lambda number, index: number,
    )
    module = ModuleType("cupy")
    module.__dict__.update(cuda=SimpleNamespace(runtime=runtime), __version__="14.0")
    return module


@pytest.mark.parametrize(
    ("cupy", "told"),
    [
        (fake_cupy(0), "there is no NVIDIA driver here"),
        (
            fake_cupy(12020, ("NVIDIA L4",)),
            "supports CUDA 12.2 and the installed toolkit is 13.4: update the driver, or",
        ),
        (fake_cupy(12020, ("NVIDIA L4",)), "with the extra `cuda12`"),
        (fake_cupy(13000), "the NVIDIA driver finds no GPU"),
        (fake_cupy(13000, error="cudaErrorNoDevice: no CUDA-capable device is detected"), "no CUDA-capable device"),
    ],
)
def test_an_obstacle_comes_with_its_reason(monkeypatch: pytest.MonkeyPatch, cupy: ModuleType, told: str) -> None:
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    report = survey((13, 4))
    assert report["gpus"] == []
    assert told in report["obstacle"]


def test_every_gpu_is_surveyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(13000, ("NVIDIA L4", "NVIDIA H200")))
    report = survey((13, 0))
    assert report["obstacle"] is None
    assert [gpu["name"] for gpu in report["gpus"]] == ["NVIDIA L4", "NVIDIA H200"]
    assert report["gpus"][0]["uuid"] == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert report["gpus"][1]["attributes"] == dict(ATTRIBUTES)
    assert report["gpus"][1]["memory_bytes"] == 24 << 30


def test_a_machine_without_a_driver_is_told_so_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "find_spec", lambda name: object())
    monkeypatch.setattr(cuda, "driver_installed", lambda: False)
    assert cuda.CudaDriver().look() == ([], NO_DRIVER)


@pytest.mark.skipif(find_spec("cupy") is not None, reason="CuPy is installed here")
def test_a_machine_without_cupy_is_told_how_to_get_it() -> None:
    devices, obstacle = cuda.CudaDriver().look()
    assert devices == []
    assert "extra `cuda12` or `cuda13`" in str(obstacle)
