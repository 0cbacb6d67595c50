"""The copy bandwidth of a GPU is measured once, and rejected if another process interfered."""

import itertools
import subprocess
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import TypeAdapter

from evo.device import Device
from evo.device.estimate.target import known
from workers.backends.cuda.machine import copy_bandwidth
from workers.backends.cuda.machine.copy_bandwidth import CopyProcess, copy_us, with_measured_copies
from workers.backends.cuda.machine.copy_process import copy_bytes, copy_rate
from workers.system.device_lock import exclusive

L4 = known("sm_89")
assert L4.ceilings is not None
TABLE = L4.ceilings.bytes_per_s


class FakeProcess:
    """A measuring process that returns the first of the given answers when it gets a device."""

    args = ("python",)

    def __init__(self, answers: list[bytes | Exception], *_: object, **__: object) -> None:
        self._answers = answers
        self.returncode: int | None = None
        self.killed = False

    def communicate(self, document: bytes | None = None, timeout: float | None = None) -> tuple[bytes, bytes]:
        if document is None:
            return b"", b""
        assert TypeAdapter(Device).validate_json(document).uuid
        answer = self._answers.pop(0)
        self.returncode = 0 if isinstance(answer, bytes) else 1
        return (answer, b"") if isinstance(answer, bytes) else (b"", str(answer).encode())

    def poll(self) -> int | None:
        return self.returncode

    def kill(self) -> None:
        self.killed, self.returncode = True, -9


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[bytes | Exception]:
    """Return an empty list for answers of the fake measuring process, which returns them in order."""
    given: list[bytes | Exception] = []

    monkeypatch.setattr(subprocess, "Popen", partial(FakeProcess, given))
    return given


def test_copy_bandwidth_is_measured_once_per_gpu(answers: list[bytes | Exception], tmp_path: Path) -> None:
    answers.append(b"2.4e11")
    for _ in range(2):
        ceilings = with_measured_copies([L4], tmp_path)[0].ceilings
        assert ceilings is not None
        assert (ceilings.bytes_per_s, ceilings.bytes_source, ceilings.source) == (2.4e11, "measured", "table")
    assert not answers


@pytest.mark.parametrize(
    "answer", [repr(TABLE / 3).encode(), b"", subprocess.CalledProcessError(1, "x", stderr=b"out of memory")]
)
def test_datasheet_bandwidth_is_used_if_measuring_fails(
    answers: list[bytes | Exception], tmp_path: Path, answer: bytes | Exception
) -> None:
    answers += [answer, b"2.4e11"]
    assert with_measured_copies([L4], tmp_path)[0] == L4
    assert with_measured_copies([L4], tmp_path)[0] != L4, "the next call measures the bandwidth again"


def test_bandwidth_measurement_of_a_gpu_waits_a_limited_time_for_devices_in_use(
    answers: list[bytes | Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(copy_bandwidth, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    busy = [replace(L4, uuid=f"GPU-{tmp_path.name}-{index}") for index in range(3)]
    answers += [b"2.4e11"] * 3
    with ExitStack() as held:
        for each in busy:
            held.enter_context(exclusive(each.uuid))
        assert with_measured_copies(busy, tmp_path) == busy
    assert copy_bandwidth.TIMEOUT_S < next(ticks) < 2 * copy_bandwidth.TIMEOUT_S, "all devices share one time limit"
    assert all(each not in busy for each in with_measured_copies(busy, tmp_path)), "the devices are free now"


def test_bandwidth_process_that_was_started_in_advance_measures_only_one_device(
    answers: list[bytes | Exception], tmp_path: Path
) -> None:
    answers += [b"2.4e11", b"2.5e11"]
    devices = [replace(L4, uuid=f"GPU-{tmp_path.name}-{index}") for index in range(2)]
    with CopyProcess(tmp_path) as process:
        found = with_measured_copies(devices, tmp_path, process)
    assert [each.ceilings.bytes_per_s for each in found if each.ceilings] == [2.4e11, 2.5e11]


def test_unused_bandwidth_process_is_ended(answers: list[bytes | Exception], tmp_path: Path) -> None:
    answers.append(b"2.4e11")
    with_measured_copies([L4], tmp_path)
    with CopyProcess(tmp_path) as process:
        assert with_measured_copies([L4], tmp_path, process) == with_measured_copies([L4], tmp_path)
    assert not process.used
    assert isinstance(process._process, FakeProcess)
    assert process._process.killed


def test_copy_time_is_measured_for_the_requested_size(answers: list[bytes | Exception], tmp_path: Path) -> None:
    answers += [b"1e12", b""]
    assert copy_us(L4, tmp_path, 10**6) == pytest.approx(2.0)
    assert copy_us(L4, tmp_path, 10**6) is None


def test_copy_rate_counts_bytes_read_and_written_by_the_fastest_method() -> None:
    times = iter([1.0, 9.0, 2.0, 2.0, 2.0, 2.0, 1.5])
    ways = [SimpleNamespace(calls=1, sample=lambda: 3.0), SimpleNamespace(calls=1, sample=lambda: next(times))]
    assert copy_rate(ways, 1000) == pytest.approx(1e9)
    assert copy_bytes(L4) == 256 << 20
