"""A GPU that another program computes on, for real."""

import subprocess
import sys

import pytest

from evo.device import Device
from workers.devices import nvml

pytestmark = pytest.mark.gpu

STRANGER = (
    "import cupy, sys; kept = cupy.zeros(1 << 20); cupy.cuda.Device().synchronize(); print(1, flush=True); input()"
)


def test_another_program_is_named_as_long_as_it_is_there(gpu: Device) -> None:
    before = set(nvml.strangers(gpu.uuid))
    stranger = subprocess.Popen([sys.executable, "-c", STRANGER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert stranger.stdout is not None
        assert stranger.stdout.readline()
        found = set(nvml.strangers(gpu.uuid)) - before
    finally:
        stranger.kill()
        stranger.communicate()
    if not found:
        pytest.skip("NVML lists no processes here, e.g. in a container")
    assert any(each.startswith("process ") for each in found)
    assert set(nvml.strangers(gpu.uuid)) == before
