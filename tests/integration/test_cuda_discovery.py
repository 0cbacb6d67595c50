"""The GPU survey explains missing and unusable GPUs, tested with a fake CuPy and without a GPU."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import workers
from workers.backends.cuda import device
from workers.backends.cuda.machine.survey import ATTRIBUTES, NO_DRIVER, CudaUnusableError, index_of, survey

BUSY = "cudaErrorDevicesUnavailable: CUDA-capable device(s) is/are busy or unavailable"
FIRST = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
THIRD = "GPU-02030405-0607-0809-0a0b-0c0d0e0f1011"
BROKEN = r"""raise ImportError(
    "\n================\nFailed to import CuPy.\n\nOriginal error:\n"
    "  ImportError: libcublas.so.13: cannot open shared object file\n================\n"
)"""


class CUDARuntimeError(RuntimeError):
    status = 35


def fake_cupy(driver: int, names: tuple[str | None, ...] = (), error: str | None = None) -> ModuleType:
    """Return a fake CuPy with these GPUs. A GPU with the name None does not answer."""

    def count() -> int:
        if error:
            raise CUDARuntimeError(error)
        return len(names)

    def properties(index: int) -> dict[str, Any]:
        if (name := names[index]) is None:
            raise CUDARuntimeError(BUSY)
        return {"name": name.encode(), "uuid": bytes(range(index, index + 16)), "totalGlobalMem": 24 << 30}

    runtime = SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError,
        driverGetVersion=lambda: driver,
        getDeviceCount=count,
        getDeviceProperties=properties,
        deviceGetAttribute=lambda number, index: number,
    )
    module = ModuleType("cupy")
    module.__dict__.update(cuda=SimpleNamespace(runtime=runtime), __version__="14.0")
    return module


@pytest.mark.parametrize(
    ("cupy", "told"),
    [
        (fake_cupy(0), "this machine has no NVIDIA driver"),
        (
            fake_cupy(12020, ("NVIDIA L4",)),
            "supports CUDA 12.2, but the installed toolkit is 13.4; update the driver, or",
        ),
        (fake_cupy(12020, ("NVIDIA L4",)), "with the extra `cuda12`"),
        (fake_cupy(13000), "the NVIDIA driver finds no GPU"),
        (fake_cupy(13000, error="cudaErrorNoDevice: no CUDA-capable device is detected"), "no CUDA-capable device"),
    ],
)
def test_gpu_survey_gives_the_reason_why_no_gpu_can_be_used(
    monkeypatch: pytest.MonkeyPatch, cupy: ModuleType, told: str
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    report = survey((13, 4))
    assert report["gpus"] == []
    assert told in report["obstacle"]


def test_gpu_survey_lists_every_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(13000, ("NVIDIA L4", "NVIDIA H200")))
    report = survey((13, 0))
    assert report["obstacle"] is None
    assert [gpu["name"] for gpu in report["gpus"]] == ["NVIDIA L4", "NVIDIA H200"]
    assert report["gpus"][0]["uuid"] == FIRST
    assert report["gpus"][1]["attributes"] == dict(ATTRIBUTES)
    assert report["gpus"][1]["memory_bytes"] == 24 << 30


def test_unresponsive_gpu_does_not_hide_other_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(13000, ("NVIDIA L4", None, "NVIDIA H200")))
    report = survey((13, 0))
    assert [gpu["name"] for gpu in report["gpus"]] == ["NVIDIA L4", "NVIDIA H200"]
    assert report["obstacle"] == f"GPU 1 cannot be used: {BUSY} (`nvidia-smi` may give more information)"
    assert (index_of(FIRST), index_of(THIRD)) == (0, 2)
    with pytest.raises(CudaUnusableError, match=r"GPU-0: this GPU is no longer .*; GPU 1 cannot be used: cudaErrorD"):
        index_of("GPU-0")


def test_gpu_survey_reports_every_unresponsive_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(13000, (None, None)))
    report = survey((13, 0))
    assert report["gpus"] == []
    told = [each.partition(":")[0] for each in report["obstacle"].split("; ")]
    assert told == ["GPU 0 cannot be used", "GPU 1 cannot be used"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cupy", "told"),
    [
        (BROKEN, "CuPy cannot be imported: ImportError: libcublas.so.13: cannot open shared object file; "),
        ("import os; os._exit(3)", "looking for GPUs failed: ended with status 3 before it was finished"),
        ("import os; os.abort()", "looking for GPUs failed: killed by SIGABRT"),
        ("", "looking for GPUs failed: AttributeError: module 'cupy' has no attribute 'cuda'"),
    ],
)
def test_failed_gpu_survey_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cupy: str, told: str
) -> None:
    (tmp_path / "cupy.py").write_text(cupy)
    root = str(Path(workers.__file__).parent.parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), root)))
    monkeypatch.setattr(device, "find_spec", lambda name: object())
    monkeypatch.setattr(device, "driver_installed", lambda: True)
    monkeypatch.setattr(device.CudaDriver, "compiler", lambda _: SimpleNamespace(toolkit=(13, 0)))
    devices, obstacle = device.CudaDriver().look()
    assert devices == []
    assert str(obstacle).startswith(told)
    assert "\n" not in str(obstacle)


def test_machine_without_a_driver_is_reported_immediately(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "find_spec", lambda name: object())
    monkeypatch.setattr(device, "driver_installed", lambda: False)
    assert device.CudaDriver().look() == ([], NO_DRIVER)


@pytest.mark.skipif(find_spec("cupy") is not None, reason="the test needs a machine without CuPy")
def test_machine_without_cupy_gets_install_instructions() -> None:
    devices, obstacle = device.CudaDriver().look()
    assert devices == []
    assert "extra `cuda12` or `cuda13`" in str(obstacle)
