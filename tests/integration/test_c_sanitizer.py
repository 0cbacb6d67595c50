"""C sanitizers: findings are reported, and reasons why they could not run."""

from pathlib import Path

import numpy as np
import pytest

from evo.family.source.language import Language
from evo.trial.results import Sanitized
from workers.backends.cpu.compiler import find_compiler
from workers.backends.cpu.sanitizer import CSanitizer
from workers.backends.tools import Subject
from workers.build import Unit
from workers.build.kernel import Argument, KernelFile

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


def examined(
    folder: Path, fault: str, *, threads: int = 1, compiler: tuple[str, ...] = (), language: Language = "c"
) -> tuple[Sanitized, ...]:
    (folder / "x.bin").write_bytes(np.arange(N, dtype=np.float32).tobytes())
    subject = Subject(
        unit=Unit(
            source=SOURCE.replace("FAULT", fault),
            architecture="native",
            entry="scaled",
            flags=("-pthread",),
            language=language,
            folders=(folder,),
        ),
        kernel=KernelFile(path="unused", entry="scaled", arguments=ARGUMENTS),
        inputs=folder,
        threads=threads,
        device_uuid="cpu",
    )
    return CSanitizer(compiler or find_compiler()).examine(subject, timeout_s=30.0)


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
def test_memory_errors_and_undefined_behaviour_are_found(tmp_path: Path, fault: str, found: str | None) -> None:
    memory, threads = examined(tmp_path, fault)
    assert memory.skipped is None
    assert threads.skipped == "the kernel runs on one thread"
    assert [found in finding for finding in memory.findings if found] == [True] * (found is not None)


@pytest.mark.parametrize("macro", ["__SANITIZE_ADDRESS__", "__SANITIZE_THREAD__"])
def test_kernel_cannot_detect_the_sanitizer_by_a_macro(tmp_path: Path, macro: str) -> None:
    fault = f"\n#ifndef {macro}\ny[8] = 1.0f;\n#endif\n"
    memory, _ = examined(tmp_path, fault)
    assert "heap-buffer-overflow" in memory.findings[0]


def test_data_race_between_threads_is_found(tmp_path: Path) -> None:
    memory, threads = examined(tmp_path, RACE, threads=2)
    assert memory.findings == ()
    assert threads.skipped is None
    assert any("data race" in finding for finding in threads.findings)


def test_missing_sanitizers_are_reported(tmp_path: Path) -> None:
    memory, _ = examined(tmp_path, "", compiler=("false",))
    assert memory.findings == ()
    assert str(memory.skipped).startswith("the compiler cannot build with it here")


def test_cpp_kernels_and_family_headers_are_checked(tmp_path: Path) -> None:
    (tmp_path / "fault.h").write_text("#define OUTSIDE y[8] = 1.0f\n")
    for language in LANGUAGES:
        memory, _ = examined(tmp_path, "\n#include <fault.h>\nOUTSIDE;", language=language)
        assert any("heap-buffer-overflow" in finding for finding in memory.findings), memory


def test_kernels_find_their_in_place_arguments_and_initial_values(tmp_path: Path) -> None:
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
    subject = Subject(
        unit=Unit(source=source, architecture="native", entry="f", folders=(tmp_path,)),
        kernel=KernelFile(path="unused", entry="f", arguments=arguments),
        inputs=tmp_path,
        threads=1,
        device_uuid="cpu",
    )
    first, _ = CSanitizer(find_compiler()).examine(subject, timeout_s=30.0)
    assert (first.findings, first.skipped) == ((), None)
