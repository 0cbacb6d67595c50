"""Families can require nvcc: tested with a fake nvcc, which records its calls, and with a real nvcc if installed."""

import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from evo.device.estimate.target import known
from evo.errors import InvalidInput
from evo.trial.outcome import CompileFailed
from templates.registry import Package, find
from tests.integration.test_kernels_compile import KERNELS, Workshop
from tests.tiers import one_in
from workers.backends.cuda.compilers import nvcc
from workers.backends.cuda.compilers.compiler import CudaCompiler
from workers.backends.cuda.compilers.nvcc import NoNvccError, NvccCompiler
from workers.backends.cuda.compilers.nvrtc import NoNvrtcError
from workers.build import Artefact, Unit
from workers.build.advice import advised
from workers.build.cache import Cache
from workers.build.cached import compile_cached

KERNEL = 'extern "C" __global__ void f(std::int32_t *x) { *x = 1; }'
UNIT = Unit(source=f"#include <cstdint>\n{KERNEL}", architecture="sm_90", entry="f", language="cuda", compiler="nvcc")

FAKE = """#!/bin/sh
case "$*" in *--version*) echo "Cuda compilation tools, release 13.0, V13.0.88"; exit;; esac
case "$*" in *"-x cu"*) exit;; esac
echo "$@" >> CALLS
cat HERE/said
test -s HERE/status && exit $(cat HERE/status)
echo a cubin > kernel.cubin
echo ".visible .entry f(" > kernel.ptx
echo "kernel.cubin : kernel.cu HERE/own.h" > kernel.d
"""
PTXAS = """ptxas info    : Compiling entry function 'f' for 'sm_90'
ptxas info    : Used 8 registers, used 0 barriers, 32 bytes smem
ptxas info    : Compile time = 3.1 ms
"""


class FakeNvcc:
    """A fake nvcc on the ``PATH`` that prints given output and records its calls."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.header = folder / "own.h"
        self.header.write_text("")
        self.says(PTXAS)
        path = folder / "nvcc"
        path.write_text(FAKE.replace("CALLS", f"{folder}/calls").replace("HERE", str(folder)))
        path.chmod(0o755)

    def says(self, text: str, status: str = "") -> None:
        (self._folder / "said").write_text(text)
        (self._folder / "status").write_text(status)

    @property
    def calls(self) -> list[str]:
        made = self._folder / "calls"
        return made.read_text().splitlines() if made.exists() else []


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvcc:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return FakeNvcc(folder)


@pytest.fixture(scope="module")
def real() -> NvccCompiler:
    compiler = NvccCompiler()
    if compiler.command is None or shutil.which("g++") is None:
        pytest.skip("nvcc or a C++ compiler for it is not installed")
    return compiler


def compiled_by(compiler: NvccCompiler, unit: Unit) -> Artefact:
    made = compiler.compile(unit, timeout_s=120)
    assert isinstance(made, Artefact), made
    return made


def test_nvcc_command_has_architecture_include_folders_and_flags(fake: FakeNvcc, tmp_path: Path) -> None:
    made = compiled_by(NvccCompiler(), replace(UNIT, folders=(tmp_path,), flags=("-DX=1",)))
    assert made.binary == b"a cubin\n"
    assert made.figures == {"registers": 8, "static_shared_memory_bytes": 32, "barriers": 0}
    assert made.reads == (str(fake.header),)
    assert "Compile time" not in made.log
    (call,) = fake.calls
    assert f"-cubin -arch=sm_90 -std=c++17 -Xptxas -v -I{tmp_path} -DX=1 " in call


def test_nvcc_source_error_is_a_compile_failed_outcome(fake: FakeNvcc) -> None:
    fake.says("kernel.cu(1): error: expected a declaration", "2")
    made = NvccCompiler().compile(UNIT, timeout_s=60)
    assert made == CompileFailed(log="kernel.cu(1): error: expected a declaration")


def test_nvcc_error_for_a_missing_entry_suggests_extern_c(fake: FakeNvcc) -> None:
    fake.says(PTXAS.replace("'f'", "'_Z1fPi'"))
    made = NvccCompiler().compile(UNIT, timeout_s=60)
    assert isinstance(made, CompileFailed)
    assert "the kernel `f`" in made.log and '`extern "C"`' in made.log


@pytest.mark.parametrize(
    "said",
    [
        "nvcc fatal   : Unsupported gpu architecture 'compute_90'",
        "nvcc fatal   : Cannot find compiler 'g++' in PATH",
        "#error -- unsupported GNU version! gcc versions later than 15 are not supported! The nvcc flag '-allow-…' can",
    ],
)
def test_missing_host_compiler_of_nvcc_is_not_reported_as_a_kernel_fault(fake: FakeNvcc, said: str) -> None:
    fake.says(said, "1")
    with pytest.raises(NoNvccError, match=r"nvcc 13\.0\.88 cannot compile for sm_90: "):
        NvccCompiler().compile(UNIT, timeout_s=60)


def test_compilation_with_missing_nvcc_is_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(nvcc, "_TOOLKIT", Path("/nowhere"))
    monkeypatch.setattr(nvcc, "in_wheels", lambda *_: [])
    assert NvccCompiler().version == "without nvcc"
    with pytest.raises(NoNvccError, match=r"add nvcc to the PATH, or remove the key"):
        NvccCompiler().compile(UNIT, timeout_s=60)


def test_nvcc_builds_are_cached_until_a_header_changes(fake: FakeNvcc, tmp_path: Path) -> None:
    try:
        compiler, cache = CudaCompiler(), Cache(tmp_path / "cache")
    except NoNvrtcError:
        pytest.skip("NVRTC is not installed")
    assert compiler.version.endswith("; nvcc 13.0.88")
    for content, calls in (("", 1), ("", 1), ("int other;", 2)):
        if content:
            fake.header.write_text(content)
        time.sleep(0.1)  # wait, because a binary is not cached if a header has just changed
        compile_cached(compiler, cache, UNIT, timeout_s=60)
        compile_cached(compiler, cache, UNIT, timeout_s=60)
        assert len(fake.calls) == calls


@pytest.mark.parametrize("name", ["NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS", "CPATH"])
def test_compiler_version_covers_nvcc_environment_variables(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    try:
        before = CudaCompiler().version
    except NoNvrtcError:
        pytest.skip("NVRTC is not installed")
    monkeypatch.setenv(name, "-DX=1")
    assert CudaCompiler().version != before


@pytest.mark.slow
def test_nvrtc_and_nvcc_do_not_share_builds(fake: FakeNvcc, tmp_path: Path) -> None:
    try:
        compiler, cache = CudaCompiler(), Cache(tmp_path / "cache")
    except NoNvrtcError:
        pytest.skip("NVRTC is not installed")
    plain = replace(UNIT, source=KERNEL.replace("std::int32_t", "int"), compiler="")
    by_nvrtc = compile_cached(compiler, cache, plain, timeout_s=60)
    by_nvcc = compile_cached(compiler, cache, replace(plain, compiler="nvcc"), timeout_s=60)
    assert isinstance(by_nvrtc, Artefact) and isinstance(by_nvcc, Artefact)
    assert by_nvcc.binary == b"a cubin\n" != by_nvrtc.binary


@pytest.mark.slow
@pytest.mark.parametrize("architecture", one_in(3, ["sm_90a", "sm_80", "sm_90"]))
def test_nvcc_compiles_with_standard_headers_reproducibly(real: NvccCompiler, architecture: str) -> None:
    first, second = (compiled_by(real, replace(UNIT, architecture=architecture)) for _ in range(2))
    assert first.binary[:4] == b"\x7fELF"
    assert first.digest == second.digest
    assert first.figures["registers"] > 0
    assert any(name.endswith("/cstdint") for name in first.reads or ())
    assert first.searched


def test_compile_advice_names_the_missing_user_header_under_nvcc(real: NvccCompiler) -> None:
    unit = replace(UNIT, source='#include "mine.h"\n' + KERNEL)
    made = real.compile(unit, timeout_s=120)
    assert isinstance(made, CompileFailed)
    assert advised(made.log, unit, None).startswith("mine.h is not in the source's folder")


def declared(folder: Path, name: str) -> Package:
    """Return a copy of a kernel's family that requires nvcc."""
    place = folder / name
    shutil.copytree(KERNELS / name, place)
    text = (place / "family.toml").read_text()
    (place / "family.toml").write_text(text.replace("[cuda]\n", '[cuda]\ncompiler = "nvcc"\n'))
    return find(str(place))


@pytest.mark.slow
@pytest.mark.parametrize("name", one_in(2, ["template_scale", "block_reduce", "prefix_sum", "dequantize"]))
def test_kernels_compile_with_nvcc(real: NvccCompiler, tmp_path: Path, name: str) -> None:
    try:
        workshop = Workshop(CudaCompiler(), tmp_path)
    except NoNvrtcError:
        pytest.skip("NVRTC is not installed")
    made = workshop.built(declared(tmp_path, name), known("sm_90"))
    assert made.refusal is None, made.refusal
    assert made.resources["registers"] > 0


def test_error_names_the_unknown_cuda_compiler(tmp_path: Path) -> None:
    package = declared(tmp_path, "dequantize")
    spec = package.path / "family.toml"
    spec.write_text(spec.read_text().replace('"nvcc"', '"nvc++"'))
    with pytest.raises(InvalidInput, match=r"nvc\+\+") as refused:
        find(str(package.path))
    assert refused.value.field == "family.toml: cuda.compiler"
