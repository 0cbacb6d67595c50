"""Other users of a GPU are listed, tested with a fake NVML and fake processes."""

import os
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import psutil
import pytest

import workers
from evo.cli.commands import doctor
from evo.device.estimate.target import known
from workers.backends import LaunchError
from workers.backends.cuda import device
from workers.backends.cuda.compilers.nvrtc import NvrtcCompiler
from workers.backends.cuda.machine import nvml
from workers.backends.cuda.machine.survey import CudaUnusableError

NAMES = {41: "/usr/bin/python3", 42: b"/opt/train", 43: None}
COMMANDS = {44: ["python", "-P", "-m", "workers.runner.guardian", "7"], 41: ["python3", "train.py"]}
STARTS = re.compile(r'"-m", (?:"(workers[.\w]*)"|(__name__))')


class NVMLError(Exception):
    pass


def fake_nvml(pids: list[int]) -> ModuleType:
    def name(pid: int) -> str | bytes:
        if (found := NAMES[pid]) is None:
            raise NVMLError("not permitted")
        return found

    module = ModuleType("pynvml")
    module.__dict__.update(
        NVMLError=NVMLError,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlDeviceGetComputeRunningProcesses=lambda handle: [SimpleNamespace(pid=pid) for pid in pids],
        nvmlSystemGetProcessName=name,
    )
    return module


class Process:
    def __init__(self, pid: int) -> None:
        self.pid = pid

    def cmdline(self) -> list[str]:
        if self.pid not in COMMANDS:
            raise psutil.NoSuchProcess(self.pid)
        return COMMANDS[self.pid]


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set up a fake GPU that is used by three foreign processes, a runner, and this process."""
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml([os.getpid(), 41, 42, 43, 44]))
    monkeypatch.setattr(psutil, "Process", Process)
    nvml._library.cache_clear()
    yield
    nvml._library.cache_clear()


WHO = "process 41 (python3), process 42 (train), process 43"


def test_list_of_processes_that_use_a_gpu_excludes_processes_of_the_worker(shared: None) -> None:
    assert ", ".join(nvml.strangers("GPU-1")) == WHO


def started() -> Iterator[str]:
    """Yield the names of the modules that the program starts as processes."""
    root = Path(workers.__file__).parent
    for path in sorted(root.rglob("*.py")):
        module = ".".join(["workers", *path.relative_to(root).with_suffix("").parts])
        yield from (named or module for named, _ in STARTS.findall(path.read_text()))


def test_every_process_started_by_the_worker_counts_as_a_process_of_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "Process", Process)
    ours = {
        "workers.runner.guardian",
        *(f"workers.backends.cuda.{each}" for each in ("machine.survey", "machine.copy_process", "tools.solo")),
    }
    found = set(started())
    assert ours <= found
    assert all(find_spec(module) for module in found)
    for module in found:
        monkeypatch.setitem(COMMANDS, 45, ["/usr/bin/python3", "-P", "-m", module, "/tmp/plan.json"])
        assert nvml._is_ours(45), module


@pytest.mark.parametrize(
    "command",
    [
        ["python", "-m", "workers.train"],
        ["python", "-m", "workers"],
        ["python", "train.py", "workers.runner.guardian"],
        ["python", "-m"],
        [],
    ],
)
def test_process_with_a_similar_command_does_not_count_as_a_process_of_the_worker(
    monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setattr(psutil, "Process", Process)
    monkeypatch.setitem(COMMANDS, 45, command)
    assert not nvml._is_ours(45)


def test_list_of_gpu_users_is_empty_without_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    nvml._library.cache_clear()
    assert nvml.strangers("GPU-1") == ()
    nvml._library.cache_clear()


def test_doctor_lists_processes_that_share_a_gpu(shared: None) -> None:
    (finding,) = doctor._sharing([known("NVIDIA L4")])
    assert (finding.found, finding.detail) == (False, f"in use by {WHO}")
    assert finding.remedy.endswith(f"stop other programs on it: {WHO}")


def test_error_for_a_busy_gpu_names_the_process_that_uses_the_gpu(
    shared: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(uuid: str) -> int:
        raise LaunchError("all CUDA-capable devices are busy or unavailable")

    monkeypatch.setitem(sys.modules, "cupy", ModuleType("cupy"))
    sys.modules["cupy"].__dict__["cuda"] = SimpleNamespace(Device=refuse)
    monkeypatch.setattr(device, "index_of", refuse)
    with pytest.raises(CudaUnusableError, match=r"NVIDIA L4 .* busy or unavailable; it is in use by process 41"):
        device.CudaSession(known("NVIDIA L4"), tmp_path, NvrtcCompiler.__new__(NvrtcCompiler))
