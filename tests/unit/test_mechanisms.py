"""Mechanisms of kernels are detected by their instructions."""

import platform
import shutil
from pathlib import Path

import pytest

from workers.backends.cpu.compiler import CCompiler, find_compiler
from workers.build import Artefact, Unit
from workers.build.cache import Cache
from workers.build.kernel import mechanisms, of_disassembly, of_ptx

PTX = [
    ("add.f32 %f1, %f2, %f3;", ("scalar",)),
    ("ld.global.v4.f32 {%f1,%f2,%f3,%f4}, [%rd1];", ("scalar", "vector access")),
    ("cp.async.cg.shared.global [%r1], [%rd1], 16; ld.shared.f32 %f1, [%r1];", ("scalar", "async", "shared memory")),
    ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f1};", ("mma",)),
    ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1}, {%r1}, {%r2}, {%f1};", ("mma",)),
    (
        "cp.async.bulk.tensor.2d.shared::cluster.global [%r1], [%rd1, {0, 0}], [%r2];\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%f1}, %rd1, %rd2;",
        ("wgmma", "tma"),
    ),
    ("shfl.sync.bfly.b32 %r1, %r2, 16, 31, -1;", ("scalar", "shuffle")),
    ("cp.async.wait_group 0; // wgmma.mma_async mma.sync", ("scalar",)),
]
LISTINGS = [
    ("  10: vaddss %xmm1,%xmm0,%xmm0\n", ("scalar",)),
    ("  10: vmovaps (%rdi),%zmm0\n", ("scalar",)),
    ("  10: addps %xmm1,%xmm0\n", ("SIMD 128",)),
    ("  10: vmulps (%rdi),%ymm1,%ymm0\n", ("SIMD 256",)),
    ("  10: vfmadd213ps (%rdi),%zmm1,%zmm0\n  20: vaddps %ymm1,%ymm2,%ymm3\n", ("SIMD 512", "FMA")),
    ("  10: vfmadd213ss (%rdi),%xmm1,%xmm0\n", ("scalar", "FMA")),
    ("  10: call 1030 <pthread_create@plt>\n", ("scalar", "threads")),
    ("  10: call 1030 <GOMP_parallel@plt>\n", ("scalar", "threads")),
    ("  10: fmla\tv0.4s, v1.4s, v2.4s\n", ("SIMD 128", "FMA")),
    ("  10: fadd\ts0, s1, s2\n", ("scalar",)),
    ("  10: fmul\tz0.s, z1.s, z2.s\n", ("SIMD scalable",)),
]


@pytest.mark.parametrize(("text", "expected"), PTX)
def test_mechanisms_of_a_gpu_kernel_are_read_from_ptx(text: str, expected: tuple[str, ...]) -> None:
    assert of_ptx(text) == expected


@pytest.mark.parametrize(("text", "expected"), LISTINGS)
def test_mechanisms_of_a_cpu_kernel_are_read_from_disassembly(text: str, expected: tuple[str, ...]) -> None:
    assert of_disassembly(text) == expected


@pytest.mark.skipif(
    shutil.which("objdump") is None or platform.machine() != "x86_64", reason="needs objdump for x86-64"
)
@pytest.mark.parametrize(
    ("body", "flags", "width"),
    [
        ("x[0] += 1.0f;", (), "scalar"),
        ("for (int i = 0; i < 4096; i++) x[i] += 2.0f;", ("-mno-avx",), "SIMD 128"),
        ("for (int i = 0; i < 4096; i++) x[i] += 2.0f;", ("-mno-avx", "-fno-tree-vectorize"), "scalar"),
    ],
)
def test_mechanisms_of_a_compiled_kernel_follow_from_its_code(
    body: str, flags: tuple[str, ...], width: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"/* vector_size pthread _mm512_add_ps */ void kernel(float *x) {{ {body} }}"
    made = CCompiler(find_compiler()).compile(
        Unit(source=source, architecture="native", entry="kernel", flags=flags), timeout_s=60
    )
    assert isinstance(made, Artefact)
    found = mechanisms(made, Cache(tmp_path))
    assert found[0] == width
    monkeypatch.setenv("PATH", "")  # without objdump, only the cache knows the mechanisms
    assert mechanisms(made, Cache(tmp_path)) == found
    assert mechanisms(made, Cache(tmp_path / "empty")) == ()
