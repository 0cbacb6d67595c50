"""Other programs that use the GPU are detected."""

import subprocess
import sys

import pytest

from evo.device import Device
from workers.backends.cuda.machine import nvml

pytestmark = pytest.mark.gpu

STRANGER = (
    "import cupy, sys; kept = cupy.zeros(1 << 20); cupy.cuda.Device().synchronize(); print(1, flush=True); input()"
)


def test_program_that_uses_the_gpu_is_listed_only_while_running(gpu: Device) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", STRANGER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert stranger.stdout is not None
        assert stranger.stdout.readline()
        found = nvml.strangers(gpu.uuid)
    finally:
        stranger.kill()
        stranger.communicate()
    if not any(is_named(each, stranger.pid) for each in found):
        pytest.skip(f"NVML lists no processes here, or lists them with other ids, as in a container: {found}")
    assert not any(is_named(each, stranger.pid) for each in nvml.strangers(gpu.uuid))


def is_named(text: str, pid: int) -> bool:
    """Return True if an entry of the list of programs names the process `pid`."""
    return text.split()[:2] == ["process", str(pid)]
