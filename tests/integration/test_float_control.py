"""Changes of a thread's floating-point modes are reported and undone."""

import ctypes
import platform
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evo.export.loader.float_control import FloatControl, preserved
from evo.family.source.flags import c_steps
from workers.backends.cpu.compiler import CCompiler, find_compiler
from workers.backends.cpu.timers import CallTimer
from workers.build import Artefact, Unit

SUBNORMAL = 5e-324
REGISTERS = """
#include <xmmintrin.h>
void f(void) {}
void mxcsr(unsigned set, unsigned clear) { _mm_setcsr((_mm_getcsr() & ~clear) | set); }
void x87(unsigned set, unsigned clear) {
    unsigned short word;
    __asm__ volatile("fnstcw %0" : "=m"(word));
    word = (unsigned short)((word & ~clear) | set);
    __asm__ volatile("fldcw %0" : : "m"(word));
}
"""
SETTINGS = [
    ("mxcsr", 0x8000, 0, "flush-to-zero"),
    ("mxcsr", 0x0040, 0, "denormals-are-zero"),
    ("mxcsr", 0x2000, 0, "rounding mode"),
    ("mxcsr", 0x4000, 0, "rounding mode"),
    ("mxcsr", 0x6000, 0, "rounding mode"),
    ("mxcsr", 0, 0x1000, "exception masks"),
    ("x87", 0, 0x0300, "x87 precision"),
    ("x87", 0, 0x0100, "x87 precision"),
    ("x87", 0x0400, 0, "x87 rounding mode"),
    ("x87", 0x0C00, 0, "x87 rounding mode"),
    ("x87", 0, 0x0020, "x87 exception masks"),
]
on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the test needs the registers of x86-64")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    with preserved():
        yield


@pytest.fixture(scope="module")
def compiler() -> CCompiler:
    return CCompiler(find_compiler())


def library(compiler: CCompiler, folder: Path, source: str, *flags: str) -> Path:
    made = compiler.compile(Unit(source=source, architecture="native", entry="f", flags=flags), timeout_s=60)
    assert isinstance(made, Artefact), made.log
    path = folder / "library.so"
    path.write_bytes(made.binary)
    return path


@pytest.fixture(scope="module")
def registers(compiler: CCompiler, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return ctypes.CDLL(str(library(compiler, tmp_path_factory.mktemp("registers"), REGISTERS)))


@on_x86
@pytest.mark.parametrize(("register", "bits_set", "cleared", "name"), SETTINGS)
def test_every_floating_point_setting_is_reported_and_restored(
    registers: Any, register: str, bits_set: int, cleared: int, name: str
) -> None:
    before = FloatControl()
    registers[register](bits_set, cleared)
    assert FloatControl().changes(before) == (name,)
    before.restore()
    assert FloatControl().changes(before) == ()


@on_x86
def test_floating_point_exception_flags_are_not_reported_as_changes(registers: Any) -> None:
    before = FloatControl()
    registers.mxcsr(0x3F, 0)
    assert FloatControl().changes(before) == ()


@on_x86
def test_floating_point_modes_are_restored_after_every_timing_sample(registers: Any) -> None:
    before = FloatControl()
    timer = CallTimer([lambda: registers.mxcsr(0xE040, 0)])
    assert FloatControl().changes(before) == ()
    for _ in range(3):
        timer.sample()
        assert FloatControl().changes(before) == ()


@on_x86
def test_floating_point_modes_are_separate_per_thread(registers: Any) -> None:
    before = FloatControl()
    other = threading.Thread(target=registers.mxcsr, args=(0x8040, 0))
    other.start()
    other.join()
    assert FloatControl().changes(before) == ()


def test_floating_point_modes_are_restored_after_an_exception() -> None:
    before = FloatControl()
    with pytest.raises(KeyError), preserved():
        ctypes.CDLL(None).fesetround(0x400 if platform.machine() == "x86_64" else 0x400000)
        assert "rounding mode" in FloatControl().changes(before)
        raise KeyError
    assert FloatControl().changes(before) == ()


@pytest.mark.parametrize(
    "flags",
    [
        ("-ffast-math",),
        ("-Ofast",),
        ("-funsafe-math-optimizations",),
        ("-O2", "-ffast-math", "-fno-math-errno"),
        ("-ffast-math", "-flto"),
        ("-Ofast", "-fopenmp"),
    ],
)
def test_loading_a_fast_math_library_changes_no_floating_point_modes(
    compiler: CCompiler, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    path = library(compiler, tmp_path, "double f(double x) { return x / 3 + x; }", *flags)
    before = FloatControl()
    loaded = ctypes.CDLL(str(path))
    assert FloatControl().changes(before) == ()
    loaded.f.restype, loaded.f.argtypes = ctypes.c_double, [ctypes.c_double]
    assert loaded.f(3.0) == pytest.approx(4.0)
    assert SUBNORMAL * 1.0 == SUBNORMAL


@on_x86
@pytest.mark.parametrize("flag", ["-mpc32", "-mpc64"])
def test_loading_a_library_built_with_mpc_flags_keeps_the_x87_precision(
    compiler: CCompiler, tmp_path: Path, flag: str
) -> None:
    if "gcc" not in compiler.product:
        pytest.skip("the flag exists only in gcc")
    path = library(compiler, tmp_path, "double f(double x) { return x; }", flag)
    before = FloatControl()
    ctypes.CDLL(str(path))
    assert FloatControl().changes(before) == ()


def test_fast_math_flag_still_changes_the_arithmetic_of_a_kernel(compiler: CCompiler, tmp_path: Path) -> None:
    source = "double f(double x) { return (x + 1e300) - 1e300; }"
    strict, fast = (library(compiler, tmp_path, source, flag).read_bytes() for flag in ("-O3", "-ffast-math"))
    assert strict != fast


def test_flags_that_set_floating_point_modes_are_omitted_when_linking() -> None:
    compiled, linked = c_steps("x86_64", ["-mdaz-ftz", "-fopenmp"], source="kernel.c", library="kernel.so")
    assert "-mdaz-ftz" in compiled
    assert "-mdaz-ftz" not in linked
    assert "-fopenmp" in linked
