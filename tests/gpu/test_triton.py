"""Triton kernels are measured on a GPU, wrong variants are refused, and an export runs without Triton."""

import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from evo.device import Device
from evo.export.bundle import Bundle
from evo.messages.job import Confirm
from evo.trial import Config
from evo.trial.outcome import Measured, WrongAnswer
from templates.registry import find
from tests.gpu.kernels import Changeable
from tests.gpu.test_planted_faults import Workshop as PlantedWorkshop
from tests.integration.test_kernels_compile import Workshop
from tests.integration.test_triton_compiles import KERNELS, NAMES
from tests.unit.views import CHAMPION, view
from workers.backends.cuda.compilers.compiler import CudaCompiler
from workers.backends.cuda.tools.sanitizer import TOOLS
from workers.backends.cuda.tools.toolkit import find_tool

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed"),
]

TILES: Config = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def kernels(gpu: Device, cache: Path, tmp_path: Path) -> Changeable:
    return Changeable(families=KERNELS, gpu=gpu, cache=cache, copies=tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_triton_kernel_is_measured(kernels: Changeable, name: str) -> None:
    outcome = kernels.measured(name).outcome
    assert isinstance(outcome, Measured), outcome


def test_triton_kernel_with_clusters_is_measured(kernels: Changeable, gpu: Device) -> None:
    if gpu.limits["compute_capability"] < 90:
        pytest.skip("clusters need sm_90")
    outcome = kernels.measured(
        "vector_add", ("family.toml", "[triton.tunables]", "[triton.tunables]\nnum_ctas = [1, 2]"), num_ctas=2
    ).outcome
    assert isinstance(outcome, Measured), outcome


@pytest.mark.parametrize("name", ["matmul_host_descriptors", "matmul_device_descriptors"])
def test_triton_kernel_with_tensor_descriptors_passes_the_sanitizers(gpu: Device, tmp_path: Path, name: str) -> None:
    if find_tool("compute-sanitizer") is None:
        pytest.skip("compute-sanitizer is not installed")
    workshop = PlantedWorkshop(gpu, tmp_path, KERNELS / name)
    job = Confirm(challenger=TILES, incumbent=None, seed=5)
    work = workshop.assignment("")
    try:
        report = workshop.evaluator.confirm(work, job, workshop.evaluator.prepare(work, job))
    finally:
        workshop.evaluator.close()
    assert [(each.tool, each.findings, each.skipped) for each in report.sanitizers] == [
        (tool, (), None) for tool in TOOLS
    ]


EXPORTED = """
import sys
import cupy as cp
from kernel import Kernel
kernel = Kernel()
{used}
assert "triton" not in sys.modules
"""
ADDED = """x, y = (cp.random.standard_normal(1 << 22, dtype=cp.float32) for _ in range(2))
assert cp.array_equal(kernel(x=x, y=y)["out"], x + y)"""
MULTIPLIED = """a, b = (cp.random.standard_normal((2048, 2048), dtype=cp.float32).astype(cp.float16) for _ in range(2))
exact = a.astype(cp.float32) @ b.astype(cp.float32)
for _ in range(3):
    assert cp.abs(kernel(a=a, b=b)["c"].astype(cp.float32) - exact).max() < 0.25"""


@pytest.mark.parametrize(
    ("name", "config", "used"),
    [
        ("vector_add", {"BLOCK": 1024, "num_warps": 4}, ADDED),
        ("matmul_host_descriptors", TILES, MULTIPLIED),
        ("matmul_device_descriptors", TILES, MULTIPLIED),
    ],
)
def test_exported_triton_kernel_runs_without_triton(
    gpu: Device, tmp_path: Path, name: str, config: Config, used: str
) -> None:
    pytest.importorskip("cupy")
    package = find(str(KERNELS / name))
    problem = package.family.problem("", "cuda")
    built = Workshop(CudaCompiler(), tmp_path / "build").built(package, gpu, config)
    assert built.refusal is None, built.refusal
    assert built.source is not None
    assert built.binary is not None
    bundle = Bundle(
        champion=replace(CHAMPION, family=name, problem=problem, config=config),
        search=view(family=name, problem=problem, device=gpu),
        family=package.family,
        source=built.source.encode(),
        library=built.binary,
        ptx=built.ptx,
    )
    folder = tmp_path / "export"
    folder.mkdir()
    for file, content in bundle.files().items():
        (folder / file).write_bytes(content)
    subprocess.run([sys.executable, "-c", EXPORTED.format(used=used)], check=True, cwd=folder, timeout=300)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("vector_add", {"mask = here < N": "mask = here < N - 1"}),
        ("row_softmax", {"(cols[None, :] < COLS)": "(cols[None, :] < COLS - 1)"}),
        ("row_softmax", {', other=-float("inf")': ", other=0.0"}),
        ("row_softmax", {', mask=mask, other=-float("inf")': ""}),
        ("rms_norm", {", other=0.0).to(tl.float32)\n        sq": ", other=9.0).to(tl.float32)\n        sq"}),
        ("layer_norm", {"tl.where(cols < COLS, (x - mean) * (x - mean), 0.0)": "(x - mean) * (x - mean)"}),
        (
            "matmul",
            {
                "sums = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)": "sums = tl.zeros([BLOCK_M, BLOCK_N], tl.float16)",
                "sums = tl.dot(left, right, sums)": "sums += tl.dot(left, right, out_dtype=tl.float16)",
            },
        ),
        ("matmul", {"< K - depth": "< K - depth + 1"}),
        ("matmul", {"mask = (rows[:, None] < M)": "mask = (rows[:, None] <= M)"}),
        ("matmul_host_descriptors", {"b_desc.load([depth, col])": "b_desc.load([depth, col + 8])"}),
        ("matmul_host_descriptors", {"c_desc.store([row, col]": "c_desc.store([row, col - col % 256]"}),
        ("matmul_device_descriptors", {"shape=[M, K], strides=[K, 1]": "shape=[M, K - 8], strides=[K, 1]"}),
        ("attention", {'tl.where(keys[None, :] < S, tl.dot(q, k) * scale, -float("inf"))': "tl.dot(q, k) * scale"}),
        ("attention", {"mask=rows[:, None] < S)": "mask=rows[:, None] < S - 1)"}),
        ("attention", {"sums * kept[:, None]": "sums"}),
        (
            "row_softmax",
            {"tl.store(out_ptr + here, powers /": "tl.store(out_ptr + here % (COLS * ROWS - 1), powers /"},
        ),
    ],
)
def test_faulty_version_of_a_triton_kernel_is_refused(kernels: Changeable, name: str, changes: dict[str, str]) -> None:
    outcome = kernels.measured(name, *(("kernel.py", old, new) for old, new in changes.items())).outcome
    assert isinstance(outcome, WrongAnswer), outcome
