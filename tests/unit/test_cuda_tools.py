"""What compute-sanitizer and Nsight Compute print, as findings and figures; and why a tool did not run."""

import sys
from pathlib import Path

import numpy as np
import pytest

from evo.job import Profiled, Sanitized
from workers.compile import Launch
from workers.cuda_tools import find_tool
from workers.devices import Argument
from workers.profilers import ncu
from workers.profilers.ncu import METRICS, NcuProfiler
from workers.protocol import KernelFile
from workers.sanitizers import Subject, cuda
from workers.sanitizers.cuda import TOOLS, CudaSanitizer

CLEAN = """========= COMPUTE-SANITIZER
kernel-evo: launched
========= ERROR SUMMARY: 0 errors
"""
READ = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at faulty+0x1a0
=========     by thread (0,0,0) in block (0,0,0)
=========     Access at 0x7f0000000400 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f0000000000 of size 1024 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: [0x2f7a3f] in libcuda.so.1
=========
========= Invalid __global__ read of size 4 bytes
=========     at faulty+0x1a0
=========     by thread (1,0,0) in block (0,0,0)
=========
========= Target application returned an error
========= ERROR SUMMARY: 2 errors
"""
RACE = """========= COMPUTE-SANITIZER
========= Error: Race reported between Read access at faulty+0x1f0
=========     and Write access at faulty+0x220 [992 hazards]
=========
kernel-evo: launched
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""


@pytest.mark.parametrize(
    ("tool", "log", "expected"),
    [
        ("memcheck", CLEAN, Sanitized(tool="memcheck")),
        (
            "memcheck",
            READ,
            Sanitized(tool="memcheck", findings=("Invalid __global__ read of size 4 bytes at faulty+0x1a0",)),
        ),
        (
            "racecheck",
            RACE,
            Sanitized(tool="racecheck", findings=("Error: Race reported between Read access at faulty+0x1f0",)),
        ),
        (
            "memcheck",
            "========= COMPUTE-SANITIZER\n========= Error: Device not supported. Please refer to the documentation.\n",
            Sanitized(tool="memcheck", skipped="Error: Device not supported. Please refer to the documentation."),
        ),
        (
            "memcheck",
            "========= COMPUTE-SANITIZER\nkernel-evo: cuInit: CUDA_ERROR_NO_DEVICE\n",
            Sanitized(tool="memcheck", skipped="the kernel was not launched: kernel-evo: cuInit: CUDA_ERROR_NO_DEVICE"),
        ),
    ],
)
def test_a_sanitizers_log_is_read(tool: str, log: str, expected: Sanitized) -> None:
    assert cuda.read(tool, log) == expected


PAGE = """==PROF== Connected to process 4242 (/usr/bin/python3)
==PROF== Profiling "sdpa" - 0: 0%....50%....100% - 9 passes
kernel-evo: launched
==PROF== Disconnected from process 4242
"ID","Process ID","Process Name","Host Name","Kernel Name","dram__bytes_read.sum","gpu__time_duration.sum",\
"lts__t_sector_hit_rate.pct","sm__ops_path_tensor_src_fp8.sum"
"","","","","","byte","ns","%",""
"0","4242","python3","127.0.0.1","sdpa","1,048,576","12480","87.5","n/a"
"""


def test_a_raw_page_is_read_in_our_units() -> None:
    profiled = ncu.read(PAGE)
    assert profiled.skipped is None
    assert profiled.figures == {"time_us": 12.48, "l2_hit_rate": 0.875, "dram_read_bytes": 1048576.0}


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "may not read the GPU's counters"),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n", "Failed to initialize the profiler"),
        ("==WARNING== No kernels were profiled.\n", "==WARNING== No kernels were profiled."),
        ("", "it said nothing"),
    ],
)
def test_why_there_is_no_profile(log: str, reason: str) -> None:
    assert reason in (ncu.read(log).skipped or "")


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    (tmp_path / "x.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    x = Argument(name="x", role="input", dtype="float32", shape=(4,))
    launch = Launch(grid=(1, 1, 1), block=(4, 1, 1))
    return Subject(
        kernel=KernelFile(path=str(tmp_path / "no.cubin"), entry="f", arguments=(x,), launch=launch),
        source="",
        flags=(),
        inputs=tmp_path,
        threads=1,
        device_uuid="GPU-0",
    )


def pretender(folder: Path, text: str) -> tuple[str, ...]:
    """A tool that only writes what it was started with, and what another one would say."""
    program = folder / "tool.py"
    program.write_text(f"import sys\nopen('{folder}/asked', 'a').write(' '.join(sys.argv[1:]) + chr(10))\n{text}")
    return (sys.executable, str(program))


def test_every_tool_is_asked_in_turn_below_which_the_kernel_runs_alone(subject: Subject, tmp_path: Path) -> None:
    found = CudaSanitizer(pretender(tmp_path, f"print({CLEAN!r})")).examine(subject, timeout_s=30)
    assert found == tuple(Sanitized(tool=tool) for tool in TOOLS)
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [line.split()[1] for line in asked] == list(TOOLS)
    assert "-m workers.devices.cuda_solo" in asked[0]


def test_metrics_that_a_gpu_lacks_are_left_out(subject: Subject, tmp_path: Path) -> None:
    lacking = METRICS["fp8_operations"].name
    refusal = f"==ERROR== Failed to find metric {lacking}"
    text = f"print({PAGE!r} if '{lacking}' not in ' '.join(sys.argv) else {refusal!r})"
    profiled = NcuProfiler(pretender(tmp_path, text)).profile(subject, cold=False, timeout_s=30)
    assert profiled.figures["time_us"] == 12.48
    first, second = (tmp_path / "asked").read_text().splitlines()
    assert lacking in first
    assert lacking not in second
    assert "--clock-control none --cache-control none" in second
    assert "--launch-skip 3" in second


def test_a_tool_that_is_absent_or_late_is_told(subject: Subject, tmp_path: Path) -> None:
    assert {each.skipped for each in CudaSanitizer(None).examine(subject, timeout_s=1)} == {
        "compute-sanitizer is not installed here"
    }
    assert NcuProfiler(None).profile(subject, cold=True, timeout_s=1) == Profiled(
        tool=ncu.TOOL, skipped="ncu is not installed here"
    )
    slow = CudaSanitizer(pretender(tmp_path, "import time; time.sleep(30)"))
    assert slow.said("memcheck", subject, timeout_s=0.5)[0] is None


def test_without_a_driver_the_program_says_so(subject: Subject) -> None:
    """The very program that tools run, below none of them."""
    status, log = CudaSanitizer((sys.executable, "-c", RUN)).said("memcheck", subject, timeout_s=60)
    if status == 0:
        pytest.skip("there is a driver here")
    assert "kernel-evo: " in log
    assert cuda.read("memcheck", log).skipped is not None


RUN = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[5:]).returncode)"


def test_tools_are_found_where_toolkits_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "compute-sanitizer"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert find_tool("compute-sanitizer") == tool
    assert find_tool("no-such-tool") is None
