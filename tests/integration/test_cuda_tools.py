"""The output of compute-sanitizer and Nsight Compute is parsed, or the reason is given why a tool did not run."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evo.device.counters import FIGURES
from evo.family import Launch
from evo.trial.results import Profiled, Sanitized
from workers.backends.cuda.tools import profiler, sanitizer, solo
from workers.backends.cuda.tools.profiler import NcuProfiler, value_of
from workers.backends.cuda.tools.sanitizer import TOOLS, CudaSanitizer
from workers.backends.cuda.tools.toolkit import find_tool
from workers.backends.tools import Subject
from workers.build import Unit
from workers.build.kernel import Argument, KernelFile

RECORDED = Path(__file__).parent.parent / "data" / "tools"
CLEAN = (RECORDED / "memcheck-none.log").read_text()


@pytest.mark.parametrize(
    ("recording", "findings"),
    [
        ("memcheck-none", ()),
        ("racecheck-none", ()),
        ("initcheck-none", ()),
        ("synccheck-none", ()),
        (
            "memcheck-out_of_bounds_write",
            (
                "Invalid __global__ write of size 4 bytes at faulty+0x1e0",
                'Program hit CUDA_ERROR_LAUNCH_FAILED (error 719) due to "unspecified launch failure" on '
                "CUDA API call to cuCtxSynchronize.",
            ),
        ),
        ("memcheck-illegal", ("Invalid __global__ write of size 4 bytes at faulty+0x210",)),
        (
            "racecheck-race",
            ("Error: Race reported between Read access at faulty+0x1c0 and Write access at faulty+0x220",),
        ),
        (
            "initcheck-uninitialised_workspace",
            ("Uninitialized __global__ memory read of size 4 bytes at faulty+0x1c0",),
        ),
        ("synccheck-barrier", ("Barrier error detected. Divergent thread(s) in warp. at faulty+0x1f0",)),
    ],
)
def test_recorded_sanitizer_output_is_parsed(recording: str, findings: tuple[str, ...]) -> None:
    tool = recording.partition("-")[0]
    log = (RECORDED / f"{recording}.log").read_text()
    assert sanitizer.read(tool, log) == Sanitized(tool=tool, findings=findings)


@pytest.mark.parametrize(
    ("tool", "log", "expected"),
    [
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
def test_sanitizer_output_gives_the_reason_why_the_sanitizer_did_not_run(
    tool: str, log: str, expected: Sanitized
) -> None:
    assert sanitizer.read(tool, log) == expected


def test_csv_output_of_ncu_is_converted_to_standard_units() -> None:
    hot, cold = (profiler.read((RECORDED / f"ncu-0-{mode}.csv").read_text()) for mode in ("hot", "cold"))
    assert hot.skipped is None
    assert hot.figures == pytest.approx(
        {
            "time_us": 8.32,
            "l2_hit_rate": 1.0,  # the tool reports 108 %, because it counts hits and accesses in different launches
            "dram_share": 0.0039,
            "dram_read_bytes": 13312,
            "dram_written_bytes": 141056,
            "tensor_active": 0.2886,
            "achieved_occupancy": 0.0623,
            "theoretical_occupancy": 0.1875,
            "eligible_warps": 0.28,
            "sectors_per_load": 16,
            "fp8_operations": 0,
            "fp16_instructions": 8912896,
            "fp32_instructions": 14417920,
            "registers": 143,
            "shared_memory_bytes": 41984,
            "stall_long_scoreboard": 0.29,
            "stall_short_scoreboard": 0.54,
            "stall_barrier": 0.06,
            "stall_math": 0,
            "stall_wait": 1.48,
            "stall_not_selected": 0,
        }
    )
    assert "sector_efficiency" not in hot.figures, "the kernel loads only by asynchronous copies"
    assert cold.figures["dram_read_bytes"] == 3166976
    assert cold.figures["l2_hit_rate"] == 0.4997


def test_sector_efficiency_is_the_lower_value_of_loads_and_copies() -> None:
    names = FIGURES["sector_efficiency"].metric.names
    page = dict(zip(names, ("0.00", "87.5"), strict=True))
    assert value_of(FIGURES["sector_efficiency"].metric, page) == 0.875
    assert value_of(FIGURES["sector_efficiency"].metric, {**page, names[0]: "25"}) == 0.25


def test_requested_stall_cache_and_tensor_counters_exist_on_a_recorded_gpu() -> None:
    """The recorded list is a part of the counters of one GPU, so only the kinds of counters in it are checked."""
    listed = set((RECORDED / "metrics.txt").read_text().split())
    asked = {name.split(".")[0] for figure in FIGURES.values() for name in figure.metric.names}
    kinds = ("stalled", "fp8", "pipe_tensor", "sectors_per_request", "bytes_per_sector", "hit_rate", "eligible")
    judged = {name for name in asked if any(kind in name for kind in kinds)}
    assert len(judged) >= 14
    assert judged <= listed


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "may not read the GPU's counters"),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n", "Failed to initialize the profiler"),
        ("==WARNING== No kernels were profiled.\n", "==WARNING== No kernels were profiled."),
        ("", "it printed nothing"),
    ],
)
def test_ncu_output_gives_the_reason_why_there_is_no_profile(log: str, reason: str) -> None:
    assert reason in (profiler.read(log).skipped or "")


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    (tmp_path / "x.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    x = Argument(name="x", role="input", dtype="float32", shape=(4,))
    launch = Launch(grid=(1, 1, 1), block=(4, 1, 1))
    return Subject(
        kernel=KernelFile(path=str(tmp_path / "no.cubin"), entry="f", arguments=(x,), launch=launch),
        unit=Unit(source="", architecture="sm_90", entry="f", language="cuda"),
        inputs=tmp_path,
        threads=1,
        device_uuid="GPU-0",
    )


def pretender(folder: Path, text: str) -> tuple[str, ...]:
    """Write a fake tool that appends its arguments to a file and then runs `text`. Return the command to start it."""
    program = folder / "tool.py"
    program.write_text(f"import sys\nopen('{folder}/asked', 'a').write(' '.join(sys.argv[1:]) + chr(10))\n{text}")
    return (sys.executable, str(program))


def test_every_sanitizer_tool_runs_the_program_that_launches_the_kernel(subject: Subject, tmp_path: Path) -> None:
    found = CudaSanitizer(pretender(tmp_path, f"print({CLEAN!r})")).examine([subject], timeout_s=300)
    assert found == tuple(Sanitized(tool=tool) for tool in TOOLS)
    asked = sorted((tmp_path / "asked").read_text().splitlines(), key=lambda line: TOOLS.index(line.split()[1]))
    assert [line.split()[1] for line in asked] == list(TOOLS)
    assert ["--padding 256" in line for line in asked] == [tool == "memcheck" for tool in TOOLS]
    assert "-m workers.backends.cuda.tools.solo" in asked[0]


@pytest.mark.parametrize(("source", "hint"), [("mbarrier.arrive.shared.b64 state, [%0];", True), ("", False)])
def test_race_in_a_kernel_with_mbarriers_names_the_limit_of_racecheck(
    subject: Subject, tmp_path: Path, source: str, hint: bool
) -> None:
    race = (RECORDED / "racecheck-race.log").read_text()
    given = replace(subject, unit=replace(subject.unit, source=source))
    tools = CudaSanitizer(pretender(tmp_path, f"print({race!r} if 'racecheck' in sys.argv else {CLEAN!r})"))
    found = {each.tool: each for each in tools.examine([given], timeout_s=300)}
    assert [finding.endswith(f"({sanitizer.ARRIVALS})") for finding in found["racecheck"].findings] == [hint]


def test_profile_is_repeated_without_metrics_that_the_gpu_lacks(subject: Subject, tmp_path: Path) -> None:
    lacking = FIGURES["fp8_operations"].metric.name
    refusal = f"==ERROR== Failed to find metric {lacking}"
    page = f"open({str(RECORDED / 'ncu-0-hot.csv')!r}).read()"
    text = f"print({page} if '{lacking}' not in ' '.join(sys.argv) else {refusal!r})"
    profiled = NcuProfiler(pretender(tmp_path, text)).profile(subject, cold=False, timeout_s=300)
    assert profiled.figures["time_us"] == 8.32
    first, second = (tmp_path / "asked").read_text().splitlines()
    assert lacking in first
    assert lacking not in second
    assert "--clock-control none --cache-control none" in second
    assert "--launch-skip 3" in second


def test_missing_tool_is_reported(subject: Subject) -> None:
    assert {each.skipped for each in CudaSanitizer(None).examine([subject], timeout_s=1)} == {
        "compute-sanitizer is not installed on this machine"
    }
    assert NcuProfiler(None).profile(subject, cold=True, timeout_s=1) == Profiled(
        tool=profiler.TOOL, skipped="ncu is not installed on this machine"
    )


def test_slow_tool_is_stopped(subject: Subject, tmp_path: Path) -> None:
    slow = CudaSanitizer(pretender(tmp_path, "import time; time.sleep(30)"))
    assert slow.run_tool("memcheck", [subject], timeout_s=0.5)[0] is None


@pytest.mark.slow
def test_program_that_runs_a_kernel_for_a_tool_reports_a_missing_driver(subject: Subject) -> None:
    """The test runs the program without a sanitizer or profiler."""
    status, log = CudaSanitizer((sys.executable, "-c", RUN)).run_tool("memcheck", [subject], timeout_s=60)
    if status == 0:
        pytest.skip("an NVIDIA driver is installed")
    assert "kernel-evo: " in log
    assert sanitizer.read("memcheck", log).skipped is not None


RUN = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[7:]).returncode)"


def test_program_that_runs_a_kernel_initialises_only_triton_scratch_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other workspaces stay uninitialised, so that initcheck finds a kernel that reads them before writing."""
    written = list[int]()

    class Driver:
        def __getattr__(self, name: str) -> Callable[..., int]:
            return lambda *_: 0

        def cuMemAlloc_v2(self, pointer: Any, size: Any) -> int:
            pointer._obj.value = size.value
            return 0

        def cuMemsetD8_v2(self, pointer: Any, value: int, size: Any) -> int:
            assert (pointer.value, value) == (size.value, 0)
            written.append(size.value)
            return 0

    (tmp_path / "kernel.cubin").write_bytes(b"")
    sizes = {"held": 64, "triton_global_scratch": 384}
    buffers = tuple(Argument(name=name, role="workspace", dtype="uint8", shape=(size,)) for name, size in sizes.items())
    kernel = KernelFile(
        path=str(tmp_path / "kernel.cubin"),
        entry="f",
        arguments=buffers,
        launch=Launch(grid=(1, 1, 1), block=(32, 1, 1)),
    )
    monkeypatch.setattr(solo, "library", Driver)
    monkeypatch.setattr(solo, "BoundCall", lambda *_, **__: lambda: None)
    solo.run([solo.Plan(kernel=kernel, inputs=str(tmp_path))])
    assert written == [sizes["triton_global_scratch"]]


def test_program_that_runs_a_kernel_frees_buffers_before_the_next_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, an access out of bounds could hit a buffer of another case, which no tool reports."""
    calls = list[str]()

    class Driver:
        def __getattr__(self, name: str) -> Callable[..., int]:
            def call(*_: Any) -> int:
                calls.append(name)
                return 0

            return call

    (tmp_path / "kernel.cubin").write_bytes(b"")
    kernel = KernelFile(
        path=str(tmp_path / "kernel.cubin"),
        entry="f",
        arguments=(Argument(name="y", role="output", dtype="float32", shape=(4,)),),
        launch=Launch(grid=(1, 1, 1), block=(32, 1, 1)),
    )
    monkeypatch.setattr(solo, "library", Driver)
    monkeypatch.setattr(solo, "BoundCall", lambda *_, **__: lambda: calls.append("launch"))
    solo.run([solo.Plan(kernel=kernel, inputs=str(tmp_path))] * 2)
    case = ["cuMemAlloc_v2", "launch", "cuMemFree_v2"]
    assert [each for each in calls if each in case] == case * 2


def test_cuda_tools_are_found_in_cuda_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "compute-sanitizer"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert find_tool("compute-sanitizer") == tool
    assert find_tool("no-such-tool") is None
