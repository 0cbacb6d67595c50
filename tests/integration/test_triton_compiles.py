"""Triton kernels compile for named architectures without a GPU. The tests are skipped if Triton is not installed."""

import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from evo.device.estimate.target import known
from evo.trial.outcome import CompileFailed
from templates.registry import find
from tests.integration.test_kernels_compile import Workshop
from workers.backends.cuda.compilers.compiler import CudaCompiler
from workers.backends.cuda.compilers.nvrtc import NoNvrtcError

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")

KERNELS = Path(__file__).parents[1] / "data" / "triton"
NAMES = sorted(each.name for each in KERNELS.iterdir() if (each / "family.toml").exists())


@pytest.fixture(scope="module")
def compiler() -> CudaCompiler:
    try:
        return CudaCompiler()
    except NoNvrtcError:
        pytest.skip("NVRTC is not installed")


@pytest.fixture
def workshop(compiler: CudaCompiler, tmp_path: Path) -> Workshop:
    return Workshop(compiler, tmp_path)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_89", "sm_90"])
@pytest.mark.parametrize("name", NAMES)
def test_triton_kernel_compiles_for_every_architecture(workshop: Workshop, name: str, architecture: str) -> None:
    built = workshop.built(find(str(KERNELS / name)), known(architecture))
    assert built.refusal is None, built.refusal
    assert built.resources["registers"] > 0
    launch = next(iter(built.kernels.values())).launch
    assert launch is not None
    assert launch.block[0] in (64, 128, 256, 512)


def test_triton_compile_options_change_the_binary_and_launch(compiler: CudaCompiler, tmp_path: Path) -> None:
    package, device = find(str(KERNELS / "matmul")), known("sm_90")
    default = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP": 4, "num_warps": 4, "num_stages": 2}
    changes: list[dict[str, int]] = [{}, {"num_stages": 4}, {"num_warps": 8}]
    builds = [
        Workshop(compiler, tmp_path / str(turn)).built(package, device, default | change)
        for turn, change in enumerate(changes)
    ]
    assert all(each.refusal is None for each in builds)
    launches = [next(iter(each.kernels.values())).launch for each in builds]
    assert [each and each.block for each in launches] == [(128, 1, 1), (128, 1, 1), (256, 1, 1)]
    shared = [each.shared_memory_bytes if each else 0 for each in launches]
    assert shared[1] > shared[0] > 0
    assert len({each.digest for each in builds}) == 3


@pytest.mark.slow
def test_equal_triton_builds_have_equal_digests(tmp_path: Path) -> None:
    """Binaries contain no path or time, so that trials with equal binaries are found on every machine."""
    package, device = find(str(KERNELS / "vector_add")), known("sm_90")
    digests = {Workshop(CudaCompiler(), tmp_path / str(turn)).built(package, device).digest for turn in range(2)}
    assert len(digests) == 1


def test_compile_error_of_a_triton_kernel_names_the_line(workshop: Workshop, tmp_path: Path) -> None:
    folder = tmp_path / "own" / "vector_add"
    shutil.copytree(KERNELS / "vector_add", folder)
    text = (folder / "kernel.py").read_text()
    (folder / "kernel.py").write_text(text.replace("mask = here < N", "mask = there < N"))
    refusal = workshop.built(find(str(folder)), known("sm_90")).refusal
    assert isinstance(refusal, CompileFailed)
    first, *excerpt = refusal.log.splitlines()
    assert re.fullmatch(r"CompilationError: kernel\.py:8:\d+: NameError\('there is not defined'\)", first)
    assert any("mask = there < N" in line for line in excerpt)


def test_triton_launch_has_scratch_memory_for_descriptors_that_the_kernel_creates(workshop: Workshop) -> None:
    built = workshop.built(find(str(KERNELS / "matmul_device_descriptors")), known("sm_90"))
    assert built.refusal is None, built.refusal
    kernel = next(iter(built.kernels.values()))
    assert kernel.launch is not None
    assert kernel.launch.tensor_maps == ()
    sizes = {each.name: each.shape[0] for each in kernel.arguments if each.role == "workspace"}
    assert sizes["triton_global_scratch"] == 3 * 128 * kernel.launch.grid[0], (
        "each program needs three tensor maps of 128 bytes"
    )
    assert built.ptx is not None
    assert b"cp.async.bulk.tensor" in built.ptx


@pytest.mark.slow
def test_triton_kernel_with_host_descriptors_takes_tensor_maps_from_sm_90_on(
    compiler: CudaCompiler, tmp_path: Path
) -> None:
    package, config = find(str(KERNELS / "matmul_host_descriptors")), {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}
    config |= {"num_warps": 8, "num_stages": 3}
    launches = {}
    for architecture in ("sm_89", "sm_90"):
        built = Workshop(compiler, tmp_path / architecture).built(package, known(architecture), config)
        assert built.refusal is None, built.refusal
        kernel = next(iter(built.kernels.values()))
        assert [each.shape for each in kernel.arguments if each.role == "workspace"] == [(1,), (1,)], (
            "no scratch memory"
        )
        launches[architecture] = kernel.launch
    assert launches["sm_89"] is not None
    assert launches["sm_89"].tensor_maps == ()
    assert launches["sm_90"] is not None
    assert [(each.of, each.box, each.swizzle) for each in launches["sm_90"].tensor_maps] == [
        ("a", (128, 64), 128),
        ("b", (64, 64), 128),
        ("c", (128, 64), 128),
    ], "a box is at most as wide as its swizzle: 64 elements"
