"""The machine code of the kernels has the expected tensor core instructions and asynchronous copies."""

import re
import subprocess
from collections import Counter
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import pytest

from evo.device.estimate.target import known
from evo.trial import Config
from evo.trial.objective import Objective
from templates.registry import find
from templates.render import render
from tests import builds
from tests.tiers import one_in
from workers.backends.cuda.compilers.nvrtc import NoNvrtcError, NvrtcCompiler
from workers.build import Artefact, Unit

INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z][\w.]*)", re.MULTILINE)

BY_WARPGROUPS: Config = {
    "PRODUCTS": "wgmma",
    "WARPS_M": 4,
    "BLOCK_M": 64,
    "BLOCK_N": 128,
    "Q_IN_REGISTERS": False,
    "RESCALE": "always",
    "ROW_SUM": "deferred",
}
ATTENTION: Config = {
    "BLOCK_M": 32,
    "WARPS_M": 2,
    "WARPS_KV": 2,
    "BLOCK_N": 128,
    "K_STAGES": 0,
    "V_STAGES": 0,
    "QK_AHEAD": True,
    "PARTS_APART": True,
    "RESCALE": "always",
    "ROW_SUM": "mma",
    "UNROLL": 2,
}
"""Common tunable values of the fastest attention kernels for the problem B=2,H=8,S=256,D=64."""


def compiled(family: str, text: str, architecture: str, change: Config, folder: Path) -> tuple[Artefact, Counter[str]]:
    """Return the binary and the count of each instruction."""
    try:
        compiler = NvrtcCompiler()
    except NoNvrtcError as error:
        pytest.skip(str(error))
    package, device = find(family), known(architecture)
    implementation = package.family.implementation("cuda")
    problem = package.family.problem(text, "cuda")
    config = {**{each.name: each.values[each.default_index] for each in implementation.tunables}, **change}
    assert not package.family.violations(config, problem, device, Objective())
    candidate = package.family.candidate(config, problem, device, Objective())
    unit = Unit(
        source=render(package, "cuda", config, problem, candidate.derived),
        architecture=candidate.target(device.architecture),
        entry=implementation.entry,
    )
    made = builds.compiled(compiler, unit)
    assert isinstance(made, Artefact), made
    binary = folder / "kernel.cubin"
    binary.write_bytes(made.binary)
    code = subprocess.run([disassembler(), binary], check=True, capture_output=True, text=True).stdout
    return made, Counter(INSTRUCTION.findall(code))


def disassembler() -> str:
    try:
        found = files("nvidia-cuda-nvdisasm") or []
    except PackageNotFoundError:
        pytest.skip("nvdisasm is not available for this system")
    return str(next(each.locate() for each in found if each.name == "nvdisasm"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "change", "has", "lacks"),
    one_in(
        5,
        [
            (("sdpa_fp8", "B=2,H=8,S=512,D=64", "sm_89"), {"PV": "e4m3"}, "QMMA.16832.F32.E4M3.E4M3", "HMMA"),
            (("sdpa_fp8", "B=2,H=8,S=512,D=64", "sm_89"), {"PV": "split"}, "QMMA.16832.F32.E4M3.E4M3", "HMMA"),
            (("sdpa_fp8", "B=2,H=8,S=512,D=64", "sm_90"), {"PV": "e4m3"}, "HMMA.16816", "QMMA"),
            (("gemm_fp8", "M=1024,N=4096,K=4096", "sm_89"), {}, "QMMA.16832.F32.E4M3.E4M3", "HMMA"),
            (("sdpa", "B=2,H=8,S=512,D=64", "sm_80"), {}, "HMMA.16816.F32", "HGMMA"),
            (("sdpa", "B=2,H=8,S=512,D=64", "sm_90"), BY_WARPGROUPS, "HGMMA.64x64x16.F32", "HMMA.16816"),
        ],
    ),
)
def test_kernels_use_the_tensor_core_instructions_of_their_architecture(
    tmp_path: Path, kernel: tuple[str, str, str], change: Config, has: str, lacks: str
) -> None:
    _, found = compiled(*kernel, change, tmp_path)
    assert any(name.startswith(has) for name in found), sorted(found)
    assert not any(name.startswith(lacks) for name in found), sorted(found)


@pytest.mark.parametrize(
    ("family", "text"), [("sdpa_fp8", "B=4,H=16,S=4096,D=128,v_layout=columns"), ("gemm_fp8", "M=4096,N=4096,K=4096")]
)
def test_fp8_kernels_use_native_wgmma_instructions_on_sm_90(tmp_path: Path, family: str, text: str) -> None:
    package = find(family)
    start, *_ = package.family.begin(package.family.problem(text, "cuda"), known("sm_90"))
    _, found = compiled(family, text, "sm_90", start, tmp_path)
    assert any(name.startswith("QGMMA.64x") and "E4M3.E4M3" in name for name in found), sorted(found)
    assert not any(name.startswith("HMMA") for name in found), sorted(found)


def test_asynchronous_copies_of_attention_need_few_registers(tmp_path: Path) -> None:
    made, found = compiled("sdpa", "B=2,H=8,S=256,D=64", "sm_90", ATTENTION, tmp_path)
    assert sum(count for name, count in found.items() if name.startswith("LDGSTS")) == 34
    assert made.figures["registers"] <= 150, "with one address per copy, the kernel needed 179 registers"


def test_attention_with_bulk_copies_has_one_proxy_fence(tmp_path: Path) -> None:
    by_engine: Config = {
        **BY_WARPGROUPS,
        "COPY": "tma",
        "COPY_TOGETHER": False,
        "PRODUCER_WARPS": 1,
    }
    made, _ = compiled("sdpa", "B=2,H=8,S=512,D=64", "sm_90", by_engine, tmp_path)
    assert made.ptx.count(b"fence.proxy.async") == 1
