"""The C sanitizers report faults of a kernel, or the reason why they could not run."""

import platform
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evo.family.source.language import Language
from evo.trial.results import Sanitized
from tests.tiers import one_in
from workers.backends.cpu.compiler import CCompiler, find_compiler
from workers.backends.cpu.sanitizer import CSanitizer
from workers.backends.tools import Subject
from workers.build import Unit
from workers.build.kernel import Argument, KernelFile
from workers.system.sandbox import sandbox_here

N = 8
LANGUAGES: tuple[Language, ...] = ("c", "c++")
ARGUMENTS = (
    Argument(name="x", role="input", dtype="float32", shape=(N,)),
    Argument(name="scale", role="scalar", dtype="float32", value=2.0),
    Argument(name="y", role="output", dtype="float32", shape=(N,)),
)
SOURCE = """
#include <pthread.h>
static int total;
static void *count(void *unused) { for (int i = 0; i < 1000; i++) total++; return unused; }
#ifdef __cplusplus
extern "C"
#endif
void scaled(const float *x, float scale, float *y) {
    for (int i = 0; i < 8; i++) y[i] = scale * x[i];
    if (y[7] != 14.0f) __builtin_trap();
    FAULT
}
"""
RACE = "pthread_t t; pthread_create(&t, 0, count, 0); count(0); pthread_join(t, 0);"


confined = pytest.mark.skipif(not sandbox_here(), reason="this machine has no sandbox")


def examined(
    folder: Path, fault: str, *, threads: int = 1, compiler: tuple[str, ...] = (), language: Language = "c"
) -> tuple[Sanitized, ...]:
    made = subject(folder, fault, threads=threads, language=language)
    return CSanitizer(CCompiler(compiler or find_compiler())).examine([made], timeout_s=300.0)


def subject(
    folder: Path, fault: str, *, threads: int = 1, language: Language = "c", untrusted: bool = False
) -> Subject:
    (folder / "x.bin").write_bytes(np.arange(N, dtype=np.float32).tobytes())
    return Subject(
        unit=Unit(
            source=SOURCE.replace("FAULT", fault),
            architecture="native",
            entry="scaled",
            flags=("-pthread",),
            language=language,
            folders=(folder,),
            untrusted=untrusted,
        ),
        kernel=KernelFile(path="unused", entry="scaled", arguments=ARGUMENTS),
        inputs=folder,
        threads=threads,
        device_uuid="cpu",
    )


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("", None),
        ("y[8] = 1.0f;", "heap-buffer-overflow"),
        ("if (x[-1] == 1.5f) y[0] = 0;", "heap-buffer-overflow"),
        ("volatile int n = 2147483647; n = n + (int)x[1];", "signed integer overflow"),
        ("__builtin_trap();", "ended the program with status"),
    ],
)
def test_c_sanitizer_finds_memory_errors_and_undefined_behaviour(tmp_path: Path, fault: str, found: str | None) -> None:
    memory, threads = examined(tmp_path, fault)
    assert memory.skipped is None
    assert threads.skipped == "the kernel runs on one thread"
    assert [found in finding for finding in memory.findings if found] == [True] * (found is not None)


@pytest.mark.parametrize("macro", ["__SANITIZE_ADDRESS__", "__SANITIZE_THREAD__"])
def test_kernel_cannot_detect_the_sanitizer_by_a_macro(tmp_path: Path, macro: str) -> None:
    fault = f"\n#ifndef {macro}\ny[8] = 1.0f;\n#endif\n"
    memory, _ = examined(tmp_path, fault)
    assert "heap-buffer-overflow" in memory.findings[0]


def test_c_sanitizer_finds_a_data_race_between_threads(tmp_path: Path) -> None:
    memory, threads = examined(tmp_path, RACE, threads=2)
    assert memory.findings == ()
    assert threads.skipped is None
    assert any("data race" in finding for finding in threads.findings)


def test_missing_c_sanitizers_are_reported(tmp_path: Path) -> None:
    memory, _ = examined(tmp_path, "", compiler=("false",))
    assert memory.findings == ()
    assert str(memory.skipped).startswith("the compiler cannot build a program with it")


@pytest.mark.slow
def test_sanitizer_checks_cpp_kernels_and_family_headers(tmp_path: Path) -> None:
    (tmp_path / "fault.h").write_text("#define OUTSIDE y[8] = 1.0f\n")
    for language in LANGUAGES:
        memory, _ = examined(tmp_path, "\n#include <fault.h>\nOUTSIDE;", language=language)
        assert any("heap-buffer-overflow" in finding for finding in memory.findings), memory


def test_sanitized_kernel_gets_in_place_arguments_and_initial_values(tmp_path: Path) -> None:
    (tmp_path / "y.bin").write_bytes(np.arange(N, dtype=np.float32).tobytes())
    arguments = (
        Argument(name="y", role="inout", dtype="float32", shape=(N,)),
        Argument(name="count", role="output", dtype="int16", shape=(3,), init=5),
        Argument(name="scratch", role="workspace", dtype="float64", shape=(2,), init=0.5, init_timed=False),
    )
    source = """
    void f(float *y, short *count, double *scratch) {
        for (int i = 0; i < 8; i++) if (y[i] != i) __builtin_trap();
        for (int i = 0; i < 3; i++) if (count[i]++ != 5) __builtin_trap();
        if (scratch[0] != 0.5 || scratch[1] != 0.5) __builtin_trap();
        y[7] += 1;
    }
    """
    made = Subject(
        unit=Unit(source=source, architecture="native", entry="f", folders=(tmp_path,)),
        kernel=KernelFile(path="unused", entry="f", arguments=arguments),
        inputs=tmp_path,
        threads=1,
        device_uuid="cpu",
    )
    first, _ = CSanitizer(CCompiler(find_compiler())).examine([made], timeout_s=300.0)
    assert (first.findings, first.skipped) == ((), None)


OPENED = """
#include <fcntl.h>
#include <unistd.h>
if (open("%s", %s, 0600) >= 0) __builtin_trap();
"""


@confined
def test_sanitized_kernel_cannot_open_files_of_the_worker(tmp_path: Path) -> None:
    inputs, others = tmp_path / "inputs", tmp_path / "others"
    inputs.mkdir()
    others.mkdir()
    (others / "secret").write_text("a token")
    (inputs / "own").write_text("the kernel's own file")
    for path, mode in (
        (others / "secret", "O_RDONLY"),
        (others / "new", "O_CREAT | O_WRONLY"),
        (inputs, "020200000 | O_RDWR"),
    ):
        memory, _ = examined(inputs, OPENED % (path, mode))
        assert (memory.findings, memory.skipped) == ((), None), path
    memory, _ = examined(inputs, OPENED % (inputs / "own", "O_RDONLY"))
    # the same code can open the kernel's own file, and then ends the program
    assert "ended the program with status" in memory.findings[0]


@confined
def test_sanitized_kernel_cannot_signal_or_trace_the_worker(tmp_path: Path) -> None:
    for call in ("kill(getppid(), 0) == 0", "ptrace(PTRACE_SEIZE, getppid(), 0, 0) == 0"):
        fault = f"\n#include <signal.h>\n#include <sys/ptrace.h>\n#include <unistd.h>\nif ({call}) __builtin_trap();\n"
        memory, _ = examined(tmp_path, fault)
        assert (memory.findings, memory.skipped) == ((), None), call


def test_sanitized_kernel_cannot_read_the_environment_of_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNEL_EVO_TOKEN", "secret")
    memory, _ = examined(
        tmp_path, 'extern char *getenv(const char *); if (getenv("KERNEL_EVO_TOKEN")) __builtin_trap();'
    )
    assert (memory.findings, memory.skipped) == ((), None)


@pytest.mark.slow
@confined
def test_sanitizer_builds_an_untrusted_source_in_the_sandbox(tmp_path: Path) -> None:
    inputs, secret = tmp_path / "inputs", tmp_path / "secret.h"
    inputs.mkdir()
    secret.write_text("\n")
    fault = f'\n#if __has_include("{secret}")\n__builtin_trap();\n#endif\n'
    for untrusted, findings in ((False, 1), (True, 0)):
        made = subject(inputs, fault, untrusted=untrusted)
        memory, _ = CSanitizer(CCompiler(find_compiler())).examine([made], timeout_s=300.0)
        assert len(memory.findings) == findings


@pytest.mark.slow
def test_sanitizer_builds_a_kernel_once_for_equal_sources_and_arguments(tmp_path: Path) -> None:
    builds, inputs = tmp_path / "builds", tmp_path / "inputs"
    for each in (builds, inputs):
        each.mkdir()
    sanitizer = CSanitizer(CCompiler(find_compiler()))
    made = replace(subject(inputs, ""), builds=builds)
    longer = replace(ARGUMENTS[2], shape=(N + 1,))
    other = replace(made, kernel=replace(made.kernel, arguments=(*ARGUMENTS[:2], longer)))
    faulty = replace(subject(inputs, "y[8] = 1.0f;"), builds=builds)
    found = [sanitizer.examine([each], timeout_s=300.0)[0].findings for each in (made, made, other, faulty)]
    assert [len(each) for each in found] == [0, 0, 0, 1]
    assert len(list(builds.iterdir())) == 3


@confined
def test_sanitized_kernel_cannot_send_signals_to_itself(tmp_path: Path) -> None:
    headers = "\n#include <errno.h>\n#include <signal.h>\n#include <unistd.h>\n"
    fault = f"{headers}if (!kill(getpid(), 0) || errno != EPERM) y[8] = 1;"
    memory, _ = examined(tmp_path, fault)
    assert (memory.findings, memory.skipped) == ((), None)


def test_sanitizer_examines_assembler_code_that_clobbers_the_frame_pointer(tmp_path: Path) -> None:
    register = "x29" if platform.machine() in {"aarch64", "arm64"} else "rbp"
    fault = f'__asm__ volatile("" ::: "{register}"); y[8] = 1.0f;'
    memory, _ = examined(tmp_path, fault)
    assert any("heap-buffer-overflow" in finding for finding in memory.findings), memory


@pytest.mark.slow
@pytest.mark.parametrize(("call_us", "found"), one_in(2, [(14.0, True), (5e4, False), (None, False)]))
def test_sanitizer_timeout_counts_as_a_fault_only_if_kernel_calls_are_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call_us: float | None, *, found: bool
) -> None:
    monkeypatch.setattr("workers.backends.cpu.sanitizer._AMPLE_S", 1.0)
    builds, sanitizer = tmp_path / "builds", CSanitizer(CCompiler(find_compiler()))
    builds.mkdir()
    made = replace(subject(tmp_path, "for (volatile int i = 0; i < x[0];) {}"), call_us=call_us, builds=builds)
    ended, _ = sanitizer.examine([made], timeout_s=300.0)
    assert (ended.findings, ended.skipped) == ((), None)
    (tmp_path / "x.bin").write_bytes(np.array([1, *range(1, N)], dtype=np.float32).tobytes())
    memory, _ = sanitizer.examine([made], timeout_s=4.0)  # the program is already built
    assert bool(memory.findings) is found
    assert (memory.skipped is None) is found
