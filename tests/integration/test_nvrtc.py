"""Every CUDA template compiles for each of its architectures. NVRTC works without a GPU and a driver."""

import ctypes
import importlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evo.device import Device
from evo.device.estimate.target import known
from evo.errors import InvalidInput
from evo.family import Candidate, Family, Launch
from evo.family.importing import read_source
from evo.trial import Config
from evo.trial.objective import Objective
from evo.trial.outcome import CompileFailed
from templates.registry import builtin, find
from templates.render import render
from tests.builds import compiled
from tests.tiers import one_in
from workers.backends.cuda.compilers import nvrtc_library
from workers.backends.cuda.compilers.nvrtc import NoNvrtcError, NvrtcCompiler, default_flags, failures, figures
from workers.backends.cuda.compilers.occupancy import blocks_per_sm, occupancy
from workers.build import Artefact, Unit, toolkit
from workers.build.cache import Cache
from workers.build.cached import compile_cached
from workers.system import line_process
from workers.system.seconds import Countdown

PROBLEMS = (
    ("sdpa", "B=2,H=8,S=512,D=64", ("sm_80",)),
    ("sdpa", "B=1,H=3,S=387,D=64,causal=true", ("sm_89",)),
    ("sdpa", "B=1,H=2,S=320,D=128", ("sm_90",)),
    ("sdpa_decode", "B=8,H=32,KV=8,S=8192,D=128", ("sm_90",)),
    ("sdpa", "B=1,H=32,KV=8,S=2048,D=128,causal=true,window=512,dtype=bfloat16", ("sm_80", "sm_89", "sm_90")),
    ("sdpa", "B=2,H=10,S=4096,S_KV=77,D=64", ("sm_90",)),
    ("sdpa", "B=1,H=32,KV=8,S=2048,D=128,causal=true,layout=bshd,dtype=bfloat16", ("sm_80", "sm_90")),
    ("sdpa", "B=8,H=12,S=1024,D=64,layout=qkv,causal=true,lse=true", ("sm_89", "sm_90")),
    ("sdpa", "B=32,H=12,S=128,D=64,lengths=ragged,layout=bshd", ("sm_80", "sm_89", "sm_90")),
    ("sdpa", "B=16,H=12,S=1024,D=64,lengths=packed,tokens=8192,layout=bshd", ("sm_80", "sm_89", "sm_90")),
    (
        "sdpa",
        "B=8,H=32,KV=8,S=2048,D=128,lengths=packed,tokens=9000,layout=qkv,causal=true,lse=true",
        ("sm_80", "sm_90"),
    ),
    (
        "sdpa",
        "B=2,H=8,KV=4,S=2048,D=128,causal=true,window=1024,softcap=50,dtype=bfloat16",
        ("sm_80", "sm_89", "sm_90"),
    ),
    ("sdpa", "B=2,H=16,S=1024,D=64,causal=true,alibi=true", ("sm_80", "sm_89", "sm_90")),
    ("sdpa_decode", "B=16,H=32,KV=8,S=2048,D=128,dtype=bfloat16", ("sm_80", "sm_90")),
    ("sdpa_decode", "B=1,H=14,KV=2,S=1001,Q=2,D=64,causal=true", ("sm_80", "sm_89")),
    ("sdpa_decode", "B=64,H=32,KV=8,S=1024,D=128,page=16,dtype=bfloat16", ("sm_80", "sm_89", "sm_90")),
    ("sdpa_decode", "B=4,H=32,KV=8,S=1024,D=64,layout=bshd", ("sm_90",)),
    ("sdpa_decode", "B=64,H=32,KV=8,S=1024,D=128,page=16,lengths=ragged,dtype=bfloat16", ("sm_80", "sm_89", "sm_90")),
    ("sdpa_fp8", "B=2,H=8,S=512,D=64", ("sm_89",)),
    ("sdpa_fp8", "B=1,H=8,S=256,D=32,v_layout=columns", ("sm_90",)),
    ("quantize_e4m3", "B=2,H=8,S=512,D=64", ("sm_89",)),
    ("quantize_e4m3", "B=2,H=8,S=512,D=64,layout=columns", ("sm_90",)),
    ("sdpa_ladder", "B=2,H=8,S=512,D=64", ("sm_80", "sm_89", "sm_90")),
    ("softmax", "rows=4096,cols=4096", ("sm_80", "sm_89", "sm_90")),
    ("softmax", "rows=37,cols=1000,dtype=float32", ("sm_89",)),
    ("rmsnorm", "rows=4096,cols=4096", ("sm_80", "sm_89", "sm_90")),
    ("layernorm", "rows=4096,cols=4096", ("sm_80", "sm_89", "sm_90")),
    ("rope", "B=1,S=2048,H=32,KV=8,D=128,dtype=bfloat16", ("sm_80", "sm_89", "sm_90")),
    ("cross_entropy", "rows=4096,cols=128257,dtype=bfloat16", ("sm_80", "sm_89", "sm_90")),
    ("swiglu", "rows=4096,cols=14336,dtype=bfloat16", ("sm_80", "sm_89", "sm_90")),
    ("rmsnorm", "rows=4096,cols=4096,residual=true,dtype=bfloat16", ("sm_80", "sm_90")),
    ("layernorm", "rows=6304,cols=1024,residual=false", ("sm_89", "sm_90")),
    ("transpose", "rows=4096,cols=4096", ("sm_80", "sm_89", "sm_90")),
    ("reduce", "rows=1024,cols=65536", ("sm_80", "sm_89", "sm_90")),
    ("gemm", "M=64,N=4096,K=14336,b_layout=nk,epilogue=bias_gelu", ("sm_80", "sm_89", "sm_90")),
    ("gemm", "M=1,N=4096,K=4096,b_layout=nk,epilogue=bias_silu,residual=true,dtype=bfloat16", ("sm_80", "sm_90")),
    ("gemm", "M=2048,N=50257,K=768,b_layout=nk,dtype=bfloat16", ("sm_80", "sm_89", "sm_90")),
    ("gemm", "M=77,N=77,K=77,epilogue=bias,residual=true", ("sm_80", "sm_90")),
    ("gemm", "M=512,N=512,K=64,batch=96,b_layout=nk,a_stride=192,b_stride=192", ("sm_80", "sm_89", "sm_90")),
    ("gemm_fp8", "M=64,N=4096,K=4096,scaling=row,epilogue=bias", ("sm_89", "sm_90")),
)
TARGETS = [
    (name, text, targets[(place + number) % len(targets)])
    for number, (name, text, targets) in enumerate(PROBLEMS)
    for place in range(len(targets))
]
"""Family, problem and architecture. The first architectures of consecutive problems differ."""

SAMPLE = 1
"""Number of configs per target besides the default. `make bench-compiling` compiles more configs of each family."""


@pytest.fixture(scope="module")
def compiler() -> Iterator[NvrtcCompiler]:
    try:
        yield NvrtcCompiler()
    except NoNvrtcError as error:
        pytest.skip(str(error))


def samples(family: str, text: str, device: Device, count: int) -> Iterator[tuple[Config, Candidate, str]]:
    package = find(family)
    problem = package.family.problem(text, "cuda")
    space = package.family.space(problem, device, Objective())
    for config in [
        space.default(),
        *space.sample(np.random.default_rng(int(device.limits["compute_capability"])), count, ()),
    ]:
        candidate = package.family.candidate(config, problem, device, Objective())
        yield config, candidate, render(package, "cuda", config, problem, candidate.derived)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "text", "architecture"), one_in(27, TARGETS))
def test_sampled_cuda_configs_compile_within_the_launch_limits(
    compiler: NvrtcCompiler, family: str, text: str, architecture: str
) -> None:
    device, entry = known(architecture), find(family).family.implementation("cuda").entry
    for number, (config, candidate, source) in enumerate(samples(family, text, device, SAMPLE)):
        made = compiled(compiler, Unit(source=source, architecture=candidate.target(architecture), entry=entry))
        assert isinstance(made, Artefact), f"{config}: {made}"
        assert "warning" not in made.log, f"{config}: {made.log}"
        assert candidate.launch is not None
        launch = Launch(**vars(candidate.launch))
        resources = compiler.resources(made, launch, device)
        assert compiler.refusal(resources, launch, device) is None, config
        assert resources.occupancy
        assert number or (resources.stack_bytes, resources.spill_bytes) == (0, 0), (
            "the default config must not spill registers"
        )
        assert 16 <= (resources.registers or 0) <= 255


def test_nvrtc_module_can_be_imported_by_its_former_name() -> None:
    assert importlib.import_module("workers.compile.nvrtc_library").Nvrtc is nvrtc_library.Nvrtc


def test_nvrtc_libraries_are_listed_newest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("cuda_nvrtc/lib/libnvrtc.so.12", "cu13/lib/libnvrtc.so.13", "cu9/lib/libnvrtc.so.9"):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).touch()
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(toolkit, "find_spec", lambda name: spec)
    found = [path.name for path in toolkit.in_wheels("lib", "libnvrtc.so.*")]
    assert found == ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.9"]


def test_compiled_problems_cover_every_cuda_kernel_family_and_architecture() -> None:
    mine = [package.family for package in builtin() if "cuda" in package.family.implementations]
    for architecture in ("sm_80", "sm_89", "sm_90"):
        meant = {family.name for family in mine if runs(family, known(architecture))}
        assert meant == {name for name, _, targets in PROBLEMS if architecture in targets}, architecture


def older(device: Device) -> Device:
    return replace(device, architecture="sm_75", limits={**device.limits, "compute_capability": 75})


def runs(family: Family, device: Device) -> bool:
    try:
        family.check_device(family.problem("", "cuda"), device)
    except InvalidInput:
        return False
    return True


OLDER = older(known("sm_80"))
CUDA_FAMILIES = [each.family for each in builtin() if "cuda" in each.family.implementations]


@pytest.mark.parametrize("family", [each.name for each in CUDA_FAMILIES if runs(each, OLDER)])
def test_families_that_support_older_gpus_compile_for_sm_75(compiler: NvrtcCompiler, family: str) -> None:
    entry = find(family).family.implementation("cuda").entry
    for config, _, source in samples(family, "", OLDER, 8):
        made = compiled(compiler, Unit(source=source, architecture="sm_75", entry=entry))
        assert isinstance(made, Artefact), f"{config}: {made}"


def test_e4m3_family_is_refused_on_a_gpu_without_e4m3() -> None:
    family = find("sdpa_fp8").family
    with pytest.raises(InvalidInput, match="E4M3 exists from sm_89 on"):
        family.check_device(family.problem("", "cuda"), known("sm_80"))


def test_compiler_warning_is_kept_with_a_fresh_and_a_cached_binary(compiler: NvrtcCompiler, tmp_path: Path) -> None:
    source = 'extern "C" __global__ void f(int* x) {\n    int unused = 3;\n    *x = 1;\n}'
    unit, cache = Unit(source=source, architecture="sm_80", entry="f"), Cache(tmp_path)
    for _ in ("fresh", "from the cache"):
        made = compile_cached(compiler, cache, unit, timeout_s=60)
        assert isinstance(made, Artefact)
        assert "kernel.cu(2): warning" in made.log


@pytest.mark.parametrize("header", ["cooperative_groups.h", "cuda/barrier", "cuda/std/array", "cuda_fp16.h"])
def test_toolkit_headers_are_found(compiler: NvrtcCompiler, header: str) -> None:
    source = f'#include <{header}>\nextern "C" __global__ void f(float* x) {{ *x = 1; }}'
    made = compiler.compile(Unit(source=source, architecture="sm_89", entry="f"), timeout_s=60)
    assert isinstance(made, Artefact), made


def test_nvrtc_compiles_equal_sources_to_equal_binaries(compiler: NvrtcCompiler) -> None:
    unit = Unit(source='extern "C" __global__ void f(int* x) { *x = 1; }', architecture="sm_80", entry="f")
    assert compiler.compile(unit, timeout_s=60) == compiler.compile(unit, timeout_s=60)


def test_compile_error_names_the_source_line(compiler: NvrtcCompiler) -> None:
    unit = Unit(source='extern "C" __global__ void f() {\n    nonsense();\n}', architecture="sm_80", entry="f")
    failed = compiler.compile(unit, timeout_s=60)
    assert isinstance(failed, CompileFailed)
    assert "kernel.cu(2): error" in failed.log


def test_assembler_error_log_contains_no_nul_character(compiler: NvrtcCompiler) -> None:
    """NVRTC 13 writes a NUL between the assembler's information and its error."""
    source = '__constant__ float t[17000];\nextern "C" __global__ void f(float *x) { *x = t[(int)*x]; }'
    made = compiler.compile(Unit(source=source, architecture="sm_89", entry="f", language="cuda"), timeout_s=60)
    assert isinstance(made, CompileFailed)
    assert "too much global constant data" in made.log
    assert "\0" not in made.log


def test_error_for_a_kernel_without_extern_c_names_the_missing_symbol(compiler: NvrtcCompiler) -> None:
    unit = Unit(source="__global__ void f(int* x) { *x = 1; }", architecture="sm_80", entry="f")
    failed = compiler.compile(unit, timeout_s=60)
    assert isinstance(failed, CompileFailed)
    assert "the kernel `f`" in failed.log and "is not found in the binary" in failed.log and 'extern "C"' in failed.log


def test_driver_cache_is_disabled_if_the_nvrtc_version_has_a_flag_for_it() -> None:
    assert "--no-cache" in default_flags((12, 9)) and "--no-cache" in default_flags((13, 0))
    assert "--no-cache" not in default_flags((12, 2)), "this NVRTC version would refuse the flag"


@pytest.mark.slow
def test_compilation_stops_at_its_time_limit_and_the_next_compilation_succeeds(compiler: NvrtcCompiler) -> None:
    rows = "\n".join(f"if (x[{i}] > {i}) x[{i}] += sinf(x[{i}]) * cosf(x[{i + 1}]);" for i in range(4000))
    slow = Unit(source=f'extern "C" __global__ void f(float* x) {{ {rows} }}', architecture="sm_80", entry="f")
    failed = compiler.compile(slow, timeout_s=0.05)
    assert isinstance(failed, CompileFailed)
    assert "stopped after 0.05 s" in failed.log
    assert isinstance(compiler.compile(QUICK, timeout_s=60), Artefact)


QUICK = Unit(source='extern "C" __global__ void f() {}', architecture="sm_80", entry="f")


@pytest.mark.slow
def test_compilation_succeeds_after_the_idle_compiler_process_was_killed(compiler: NvrtcCompiler) -> None:
    assert isinstance(compiler.compile(QUICK, timeout_s=60), Artefact)
    for process in compiler._processes._idle.queue:
        os.kill(process._popen.pid, signal.SIGKILL)
        os.waitid(os.P_PID, process._popen.pid, os.WEXITED | os.WNOWAIT)
    assert isinstance(compiler.compile(QUICK, timeout_s=60), Artefact)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "told"),
    [
        (
            "import os, signal; input(); os.kill(os.getpid(), signal.SIGKILL)",
            "without a reply: killed by SIGKILL, killed ",
        ),
        ("input(); raise SystemExit(3)", "without a reply: ended with status 3 "),
        ("input(); print('{', end='', flush=True)", "without a reply: ended with status 0 "),
        (
            "input(); print('a library says hello', flush=True)",
            "without a reply: wrote 'a library says hello' instead of an answer",
        ),
        ("import time; input(); print('{', end='', flush=True); time.sleep(60)", "was stopped after 2 s"),
    ],
)
def test_compile_failure_states_how_the_compiler_process_ended(
    compiler: NvrtcCompiler, monkeypatch: pytest.MonkeyPatch, program: str, told: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(line_process, "_command", lambda _: (sys.executable, "-c", program))
        broken = NvrtcCompiler()
        failed = broken.compile(QUICK, timeout_s=2 if told == "was stopped after 2 s" else 60)
        assert isinstance(failed, CompileFailed)
        assert told in failed.log
        assert broken._processes._idle.empty()
    assert isinstance(broken.compile(QUICK, timeout_s=60), Artefact)


def test_compiler_result_is_used_even_if_the_compiler_is_killed_right_afterwards(
    compiler: NvrtcCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = json.dumps({"binary": None, "log": "told", "ptx": ""})
    program = f"input(); print({answer!r}, flush=True)"
    monkeypatch.setattr(line_process, "_command", lambda _: (sys.executable, "-c", program))
    monkeypatch.setattr(line_process.LineProcess, "_watch", late)
    quick = NvrtcCompiler()
    assert quick.compile(QUICK, timeout_s=60) == CompileFailed(log="told")
    assert quick._processes._idle.empty(), "the killed compiler process must not be reused"


def late(process: line_process.LineProcess, _: Countdown, answered: threading.Event, late: threading.Event) -> None:
    """Kill the process just after its answer, as if the time limit had expired at that moment."""
    answered.wait()
    late.set()
    process._popen.kill()


def test_half_precision_header_is_found(compiler: NvrtcCompiler) -> None:
    source = '#include <cuda_fp16.h>\nextern "C" __global__ void f(__half* x) { *x = __float2half(1.f); }'
    made = compiler.compile(Unit(source=source, architecture="sm_80", entry="f"), timeout_s=60)
    assert isinstance(made, Artefact), made


def test_imported_file_with_host_code_compiles(compiler: NvrtcCompiler) -> None:
    text = """#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <cuda_runtime.h>
#include <cub/cub.cuh>
#define THREADS 128
__global__ void softmax(const float *x, float *out, int cols) {
    typedef cub::BlockReduce<float, THREADS> Reduce;
    __shared__ typename Reduce::TempStorage space;
    __shared__ float sum;
    float own = -INFINITY, part = 0;
    for (int32_t c = threadIdx.x; c < cols; c += THREADS) part += expf(x[blockIdx.x * cols + c]);
    part = Reduce(space).Sum(part);
    if (threadIdx.x == 0) sum = fmaxf(own, part);
    __syncthreads();
    for (int32_t c = threadIdx.x; c < cols; c += THREADS) out[blockIdx.x * cols + c] /= sum;
}
void launch(const float *x, float *out, int rows, int cols);
int main() {
    launch(nullptr, nullptr, 8, 8);
    printf("%d", cudaGetLastError());
}
void launch(const float *x, float *out, int rows, int cols) {
    softmax<<<rows, THREADS>>>(x, out, cols);
}
"""
    copy = read_source(text, "cuda").compilable({"THREADS"}, ["softmax"])
    unit = Unit(source=copy, architecture="sm_90", entry="softmax", language="cuda")
    assert isinstance(compiler.compile(unit, timeout_s=60), Artefact)


def test_error_for_an_unknown_architecture_lists_the_known_architectures(compiler: NvrtcCompiler) -> None:
    with pytest.raises(NoNvrtcError, match=r"compiles for .*sm_90.*, not for sm_12"):
        compiler.compile(Unit(source="", architecture="sm_12", entry="f"), timeout_s=60)


STARTS = (
    ("sdpa", "B=4,H=16,S=4096,D=128", {}),
    ("sdpa", "B=4,H=16,S=4096,D=128,causal=true", {}),
    ("sdpa", "B=4,H=16,S=2048,D=64", {}),
    ("sdpa", "B=4,H=16,S=2048,D=64,causal=true", {}),
    ("sdpa", "B=2,H=8,S=512,D=64", {}),
    ("sdpa", "B=2,H=8,S=256,D=64", {}),
    ("sdpa", "B=2,H=16,S=1024,D=192", {}),
    ("sdpa", "B=1,H=16,KV=8,S=2048,D=256,causal=true,dtype=bfloat16", {}),
    ("sdpa", "B=1,H=32,S=2048,D=96,causal=true,dtype=bfloat16", {}),
    ("gemm", "M=4096,N=4096,K=4096", {}),
    ("gemm", "M=4096,N=4096,K=4096", {"CLUSTER": 2, "STAGES": 3, "CTAS_PER_SM": 1}),
    *(("sdpa", f"B=32,H=16,S={s},D=80,dtype=bfloat16", {}) for s in (128, 197, 257)),
    ("sdpa", "B=2,H=10,S=4096,S_KV=77,D=64", {}),
    ("sdpa", "B=1,H=28,KV=4,S=1000,D=128,causal=true,layout=bshd,dtype=bfloat16", {}),
    *(("gemm", f"M={m},N={n},K=4096", {}) for m in (16, 64) for n in (4096, 14336)),
    ("gemm", "M=32,N=4096,K=14336,b_layout=nk,dtype=bfloat16", {}),
    *(("gemm", f"M={m},N=4096,K=4096,b_layout=nk,dtype=bfloat16", {}) for m in (128, 512)),
    ("gemm_fp8", "M=4096,N=4096,K=4096", {}),
    *(("softmax", f"rows=16384,cols={cols},dtype=float16", {}) for cols in (64, 128, 1024, 4096, 50257, 128256)),
    *(("rmsnorm", f"rows=8192,cols={cols},dtype=bfloat16", {}) for cols in (768, 5120, 16384)),
    ("rmsnorm", "rows=16,cols=4096,residual=true,dtype=bfloat16", {}),
    *(("layernorm", f"rows=6304,cols={cols},dtype=float16", {}) for cols in (1024, 4096)),
    ("transpose", "rows=16384,cols=4096,dtype=float16", {}),
    ("swiglu", "rows=4096,cols=14336,dtype=bfloat16", {}),
    ("cross_entropy", "rows=4096,cols=128256,dtype=bfloat16", {}),
    ("rope", "B=1,S=2048,H=32,KV=8,D=128,dtype=bfloat16", {}),
    *(("sdpa_decode", f"B={b},H=32,KV=8,S=8192,D=128", {}) for b in (1, 4, 8, 64)),
    ("sdpa_fp8", "B=2,H=8,S=512,D=64", {}),
    ("sdpa_fp8", "B=4,H=16,S=4096,D=128,v_layout=columns", {}),
    ("sdpa_fp8", "B=4,H=16,S=2048,D=64,v_layout=columns,causal=true", {}),
)

STARTED = [
    *((family, text, change, "sm_90") for family, text, change in STARTS),
    ("sdpa", "B=1,H=16,KV=8,S=2048,D=256,causal=true,dtype=bfloat16", {}, "sm_80"),
    ("sdpa", "B=2,H=16,S=1024,D=192", {}, "sm_89"),
]
"""Starting configs to compile: family, problem, changed tunables and architecture."""


@pytest.mark.slow
def test_compiled_configs_include_every_starting_config_of_builtin_families() -> None:
    begun = {
        (package.family.name, str(start.config))
        for package in builtin()
        for each in package.family.implementations.values()
        for start in each.starts
    }
    expected = {
        (name, str(each))
        for name, text, changes, architecture in STARTED
        if not changes
        for each in begin(find(name).family, text, architecture)
    }
    assert begun == expected


def begin(family: Family, text: str, architecture: str = "sm_90") -> list[Config]:
    return family.begin(family.problem(text, "cuda"), known(architecture))


@pytest.mark.slow
@pytest.mark.parametrize(("family", "text", "change", "architecture"), one_in(18, STARTED, of=itemgetter(0)))
def test_starting_configs_compile_without_spills_or_serialised_wgmma(
    compiler: NvrtcCompiler, family: str, text: str, change: Config, architecture: str
) -> None:
    package, device = find(family), known(architecture)
    problem = package.family.problem(text, "cuda")
    tunables = package.family.implementation("cuda").tunables
    for start in begin(package.family, text, architecture):
        config = {**{each.name: each.values[each.default_index] for each in tunables}, **start, **change}
        assert not package.family.violations(config, problem, device, Objective())
        candidate = package.family.candidate(config, problem, device, Objective())
        source = render(package, "cuda", config, problem, candidate.derived)
        entry = package.family.implementation("cuda").entry
        made = compiled(compiler, Unit(source=source, architecture=candidate.target(device.architecture), entry=entry))
        assert isinstance(made, Artefact), made
        assert "wgmma" not in made.log, "ptxas must not report that products are serialised"
        assert "warning" not in made.log
        assert made.figures["spill_store_bytes"] == 0
        by_engine = config.get("COPY") == "tma"
        assert (b"cp.async.bulk.tensor" in made.ptx) == by_engine
        assert not by_engine or b"cp.async.cg" not in made.ptx or not family.startswith("gemm")


LOG = """ptxas info    : (C7512) Potential Performance Loss: ... for the function 'f'
ptxas info    : 200 bytes gmem
ptxas info    : Compiling entry function 'f' for 'sm_90'
ptxas info    : Function properties for f
ptxas         .     16 bytes stack frame, 20 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 172 registers, used 2 barriers, 48 bytes smem
ptxas info    : Compiling entry function 'g' for 'sm_90'
ptxas info    : Used 8 registers
"""


def test_spill_bytes_are_the_sum_of_stores_and_loads(compiler: NvrtcCompiler) -> None:
    made = Artefact(binary=b"", log=LOG, figures=figures(LOG, "f"))
    assert compiler.resources(made, None, known("sm_89")).spill_bytes == 44


def test_ptxas_resources_are_read_for_the_entry_function() -> None:
    assert figures(LOG, "f") == {
        "registers": 172,
        "stack_bytes": 16,
        "spill_store_bytes": 20,
        "spill_load_bytes": 24,
        "static_shared_memory_bytes": 48,
        "barriers": 2,
    }
    assert figures(LOG, "g") == {"registers": 8}


def test_error_about_a_launch_beyond_a_device_limit_names_the_resource(compiler: NvrtcCompiler) -> None:
    device = known("sm_89")
    for registers, launch, resource in (
        (128, Launch(grid=(1, 1, 1), block=(256, 1, 1), shared_memory_bytes=120_000), "shared_memory_bytes"),
        (128, Launch(grid=(1, 1, 1), block=(2048, 1, 1)), "threads"),
        (128, Launch(grid=(1, 1, 1), block=(1024, 1, 1)), "registers of a block"),
        (96, Launch(grid=(1, 1, 1), block=(672, 1, 1)), "registers of a block"),
    ):
        artefact = Artefact(binary=b"", figures={"registers": registers})
        refusal = compiler.refusal(compiler.resources(artefact, launch, device), launch, device)
        assert refusal is not None
        assert refusal.resource == resource


@pytest.mark.parametrize(
    ("registers", "shared", "threads", "blocks"),
    [
        *((32, 0, 256, 8), (128, 0, 128, 4), (255, 0, 256, 1), (32, 100 << 10, 128, 2), (16, 0, 32, 32), (32, 0, 0, 0)),
        *(
            (144, 0, 64, 6),
            (40, 0, 160, 9),
            (88, 0, 224, 2),
            (168, 0, 384, 1),
        ),  # the warps are distributed over four partitions
        *(
            (168, 0, 288, 1),
            (176, 0, 288, 0),
            (96, 0, 672, 0),
            (80, 0, 672, 1),
            (65, 0, 1024, 0),
        ),  # the expected value states whether one block fits
    ],
)
def test_blocks_per_multiprocessor_agree_with_the_occupancy_calculator_of_nvidia(
    registers: int, shared: int, threads: int, blocks: int
) -> None:
    """The expected values are from NVIDIA's cuda_occupancy.h."""
    assert blocks_per_sm(registers, shared, threads, known("sm_90").limits) == blocks


def test_occupancy_is_the_share_of_resident_warps() -> None:
    assert occupancy(128, 0, 128, known("sm_90").limits) == 4 * 4 / 64


@pytest.mark.slow
def test_low_register_config_is_valid_on_every_architecture() -> None:
    """The config is valid on every architecture, so no space is empty. Building all spaces would take minutes."""
    few: Config = {"BLOCK_N": 32, "UNROLL": 1, "Q_IN_REGISTERS": False, "LAYOUT": "none"}
    short = (32, 64, 96, 128)
    sizes = [*(("sdpa", D, "") for D in (*short, 192, 256)), *(("sdpa_fp8", D, "") for D in short)]
    layouts = [("sdpa_fp8", D, ",causal=true,v_layout=columns") for D in short]
    fine = [("sdpa_fp8", D, f"{text},accuracy=fine") for _, D, text in layouts]
    for name, size, text in [*sizes, *layouts, *fine]:
        family = find(name).family
        weights = {"PV": "half" if "fine" in text else "e4m3", "ACCUMULATE": "chained"} if name == "sdpa_fp8" else {}
        config = {each.name: each.values[each.default_index] for each in family.implementation("cuda").tunables}
        problem = family.problem(f"B=1,H=2,S=272,D={size}{text}", "cuda")
        for device in (known("sm_80"), known("sm_89"), known("sm_90")):
            if runs(family, device):
                whole = {**config, **few, **weights}
                assert not family.violations(whole, problem, device, Objective()), (name, text, size)


@pytest.mark.parametrize("changes", [{}, {"WARPS_KV": 2, "PARTS_APART": True}, {"BLOCK_M": 192, "WARPS_M": 12}])
def test_consumer_warps_take_at_most_the_registers_that_producers_release(changes: Config) -> None:
    """Otherwise, the consumer warps would wait for registers forever."""
    family, device = find("sdpa").family, known("sm_90")
    problem = family.problem("B=4,H=16,S=2048,D=64", "cuda")
    start = next(each for each in begin(family, "B=4,H=16,S=2048,D=64") if "PRODUCER_REGISTERS" in each)
    declared = {each.name: each.values[each.default_index] for each in family.implementation("cuda").tunables}
    config = {**declared, **start, **changes}
    derived = family.candidate(config, problem, device, Objective()).derived
    threads, workers = int(derived["threads_per_block"]), 32 * int(config["WARPS_M"]) * int(config["WARPS_KV"])
    launched_with = int(device.limits["registers"]) // threads // 8 * 8
    given = launched_with - int(config["PRODUCER_REGISTERS"])
    taken = int(derived["worker_registers"]) - launched_with
    assert workers * taken <= 32 * int(config["PRODUCER_WARPS"]) * given


class Installed:
    """Replaces `ctypes.CDLL` with a fake set of installed libraries and NVRTC versions."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, versions: dict[str, tuple[int, int]], builtins: set[str]
    ) -> None:
        self.versions, self.builtins, self.loaded = versions, builtins, list[str]()
        paths = [Path(path) for path in versions if "/" in path]
        monkeypatch.setattr(nvrtc_library, "in_wheels", lambda folder, pattern: iter(paths))
        monkeypatch.setattr(ctypes, "CDLL", self.load)

    def load(self, path: str, mode: int = 0) -> SimpleNamespace:
        if path not in self.versions and path not in self.builtins:
            raise OSError(path)
        self.loaded.append(path)
        return SimpleNamespace(path=path, nvrtcVersion=lambda major, minor: self._tell(path, major, minor))

    def _tell(self, path: str, major: Any, minor: Any) -> int:
        major._obj.value, minor._obj.value = self.versions[path]
        return 0


def test_nvrtc_builtins_next_to_nvrtc_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = "/site/nvidia/cu13/lib/libnvrtc-builtins.so.13.0"
    machine = Installed(monkeypatch, {"/site/nvidia/cu13/lib/libnvrtc.so.13": (13, 0)}, {beside})
    assert nvrtc_library._load().path == "/site/nvidia/cu13/lib/libnvrtc.so.13"
    assert machine.loaded[-1] == beside


def test_nvrtc_with_builtins_of_the_same_version_is_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is partly upgraded: libnvrtc-builtins 13.5 is next to NVRTC 13.0."""
    versions = {"/a/lib/libnvrtc.so.13": (13, 0), "/b/lib/libnvrtc.so.12": (12, 9)}
    Installed(monkeypatch, versions, {"/a/lib/libnvrtc-builtins.so.13.5", "/b/lib/libnvrtc-builtins.so.12.9"})
    assert nvrtc_library._load().path == "/b/lib/libnvrtc.so.12"
    Installed(monkeypatch, versions, set())
    assert nvrtc_library._load().path == "/a/lib/libnvrtc.so.13"
    Installed(monkeypatch, {}, set())
    with pytest.raises(nvrtc_library.NvrtcMissingError):
        nvrtc_library._load()


def test_system_nvrtc_is_preferred_if_the_other_nvrtc_has_no_builtins(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"/a/lib/libnvrtc.so.13": (13, 0), "libnvrtc.so.12": (12, 9)}
    Installed(monkeypatch, versions, {"libnvrtc-builtins.so.12.9"})
    assert nvrtc_library._load().path == "libnvrtc.so.12"


@pytest.mark.slow
def test_failures_of_a_test_compilation_are_listed_per_architecture(
    compiler: NvrtcCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert failures(compiler, ["sm_89", "sm_90"]) == {}
    found = failures(compiler, ["sm_89", "sm_12"])
    assert list(found) == ["sm_12"]
    assert "compiles for" in found["sm_12"]
    broken = CompileFailed(log="nvrtc: error: failed to open libnvrtc-builtins.so.13.0.\nmore")
    monkeypatch.setattr(NvrtcCompiler, "compile", lambda *_, **__: broken)
    assert "reinstall the package that contains NVRTC" in failures(compiler, ["sm_89"])["sm_89"]
