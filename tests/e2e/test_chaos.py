"""A small fleet survives a short chaos run, with one fault of each kind. `make chaos` injects at least a hundred."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.chaos.run import run
from tests.e2e.chaos.worker import Machine, built_shim

TRY = """
import pathlib, time
print(time.time())
try:
    pathlib.Path({path!r}).write_text("x")
except OSError as error:
    print(error.strerror)
"""


@pytest.mark.long
def test_fleet_measures_trials_despite_injected_faults() -> None:
    faults, answers = run(11, services=2, workers=2, seed=7)
    assert len(faults) == 10
    assert answers["trial measured"] > 0
    assert answers["accepted"] > 0


@pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD works only on Linux")
def test_preloaded_fault_library_shifts_the_clock_and_fills_the_disk_of_a_process(tmp_path: Path) -> None:
    """The faults of the chaos run depend on this library (`shim.c`)."""
    machine = Machine(tmp_path / "machine", built_shim(tmp_path))

    def tried(path: Path) -> list[str]:
        command = [sys.executable, "-c", TRY.format(path=str(path))]
        environment = {**os.environ, **machine.environment}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split("\n")

    machine.jump(-3600)
    machine.fill_disk()
    now, full, _ = tried(machine.data / "result")
    assert abs(float(now) - time.time() + 3600) < 60
    assert full == "No space left on device"
    assert tried(tmp_path / "elsewhere")[1:] == [""], "the other disk is not full"
    machine.free_disk()
    machine.jump(0)
    now, *rest = tried(machine.data / "result")
    assert abs(float(now) - time.time()) < 60
    assert rest == [""]
