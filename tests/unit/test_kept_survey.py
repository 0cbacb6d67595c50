"""A stored survey of GPUs is reused until the driver, the GPUs or the software change."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from evo.device import Device
from evo.device.estimate.target import known
from workers.backends.cuda.machine import nvml
from workers.backends.cuda.machine.kept_survey import kept_survey


class NVMLError(Exception):
    pass


class Survey:
    """A fake survey of GPUs that counts its calls."""

    def __init__(self, found: list[Device], *, complete: bool = True) -> None:
        self.result = found, complete
        self.count = 0

    def __call__(self) -> tuple[list[Device], bool]:
        self.count += 1
        return self.result


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "installed", lambda: "570.1 GPU-1")


def test_known_gpus_are_not_surveyed_again(tmp_path: Path) -> None:
    survey = Survey([known("sm_90")])
    first, second = (kept_survey(tmp_path, "NVRTC 13.1", survey) for _ in range(2))
    assert first == second == [known("sm_90")]
    assert survey.count == 1


@pytest.mark.parametrize("changed", ["driver or GPU", "compiler", "visible GPUs"])
def test_changed_driver_gpu_or_compiler_causes_a_new_gpu_survey(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    survey = Survey([known("sm_90")])
    kept_survey(tmp_path, "NVRTC 13.1", survey)
    if changed == "driver or GPU":
        monkeypatch.setattr(nvml, "installed", lambda: "570.1 GPU-2")
    elif changed == "visible GPUs":
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    kept_survey(tmp_path, "NVRTC 13.2" if changed == "compiler" else "NVRTC 13.1", survey)
    assert survey.count == 2


def test_incomplete_or_empty_gpu_survey_is_not_stored(tmp_path: Path) -> None:
    for survey in (Survey([known("sm_90")], complete=False), Survey([])):
        assert [kept_survey(tmp_path, "NVRTC 13.1", survey) for _ in range(2)] == [survey.result[0]] * 2
        assert survey.count == 2


def test_gpus_are_surveyed_at_every_start_if_nvml_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "installed", lambda: None)
    survey = Survey([known("sm_90")])
    for _ in range(2):
        kept_survey(tmp_path, "NVRTC 13.1", survey)
    assert survey.count == 2


def test_installed_gpus_are_identified_by_driver_and_every_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    library = ModuleType("pynvml")
    library.__dict__.update(
        NVMLError=NVMLError,
        nvmlSystemGetDriverVersion=lambda: b"570.1",
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetUUID=lambda handle: f"GPU-{handle}",
    )
    monkeypatch.setitem(sys.modules, "pynvml", library)
    monkeypatch.setattr(nvml, "_library", lambda: library)
    assert nvml.installed() == "570.1 GPU-0 GPU-1"

    def lost(index: int) -> int:
        raise NVMLError("the GPU is lost")

    library.__dict__["nvmlDeviceGetHandleByIndex"] = lost
    assert nvml.installed() is None
