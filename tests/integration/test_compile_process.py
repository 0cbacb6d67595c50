"""The compile stage runs programs with captured output and time limits."""

import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from workers.system.program import run


def shell(script: str, folder: Path, timeout_s: float = 60.0) -> tuple[int | None, str]:
    return run(["/bin/sh", "-c", script], folder, timeout_s)


def test_program_run_returns_exit_status_and_both_output_streams(tmp_path: Path) -> None:
    assert shell("echo out; echo err >&2; exit 3", tmp_path) == (3, "out\nerr\n")


def test_only_the_beginning_of_endless_compiler_output_is_kept(tmp_path: Path) -> None:
    program = "import sys\nfor _ in range(500): sys.stdout.write('warning ' * 16384)"
    tracemalloc.start()
    try:
        status, said = run([sys.executable, "-c", program], tmp_path, 60.0)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (status, len(said)) == (0, 1 << 16)
    assert peak_bytes < 4 << 20


@pytest.mark.parametrize(
    "script",
    ["echo begun; sleep 600", "echo begun; exec >&- 2>&-; sleep 600", "echo begun; sleep 600 & exit 0"],
    ids=["does not end", "closes its output", "leaves a child process"],
)
def test_program_of_the_compile_stage_is_stopped_at_its_time_limit(script: str, tmp_path: Path) -> None:
    begun = time.monotonic()
    assert shell(script, tmp_path, 2.0) == (None, "begun\n")
    assert time.monotonic() - begun < 300
