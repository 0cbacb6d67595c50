"""The CUDA kernels of `tests/data/kernels` are correct on the host, and their wrong variants are detected."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from evo.device.estimate.target import known
from templates.registry import Package, find
from tests.integration.test_cuda_on_host import declared, reference
from tests.integration.test_kernels_compile import KERNELS, NAMES
from tests.integration.wrong_variants import WRONG_VARIANTS, WrongVariant
from tests.simt.host import ORDERS, HostKernel, build, compiler
from tests.tiers import one_in

pytestmark = pytest.mark.skipif(compiler() is None, reason="g++ is not installed")

DEVICE = known("sm_90")
FOUND = [each for each in WRONG_VARIANTS if not each.racing]
PROBLEMS: Mapping[str, Mapping[str, int]] = {
    "bias_gelu": {"ROWS": 3, "COLUMNS": 700},
    "bitonic_sort": {"LOG": 7},
    "block_reduce": {"ROWS": 5, "COLUMNS": 300},
    "dequantize": {"ROWS": 3, "COLUMNS": 1300},
    "gemm_split_k": {"M": 19, "N": 37, "K": 150},
    "histogram": {"N": 9999},
    "prefix_sum": {"N": 3001},
    "saxpy_in_place": {"N": 1001},
    "sgemm": {"M": 37, "N": 41, "K": 70},
    "template_scale": {"N": 1001},
}


def judged(package: Package, kernel: HostKernel, *, order: int, eager: bool) -> str | None:
    """Return the reason why the outputs are wrong; None if they are correct."""
    module = reference(package)
    problem = package.family.problem(PROBLEMS[package.family.name], "cuda")
    inputs = module.inputs(problem, package.family.cases[0].inputs, np.random.default_rng(3))
    try:
        outputs = kernel(inputs, order=order, eager=eager)
    except AssertionError as fault:
        return str(fault)
    if any(each.verified for each in kernel.operands):
        refused: str | None = module.verify(problem, inputs, outputs)
        return refused
    exact = module.reference(problem, inputs)
    for each in kernel.operands:
        if each.tolerance is not None:
            off = np.abs(outputs[each.name].astype(np.float64) - exact[each.name])
            limit = each.tolerance.rel_l2 * np.linalg.norm(exact[each.name])
            if not np.linalg.norm(off) <= limit or not np.max(off) <= (each.tolerance.max_abs or 0):
                return f"`{each.name}` is off by {np.max(off)}"
    return None


def verdicts(place: Path) -> list[str | None]:
    """Return the result of `judged` for the default config, for each execution order of the threads in `ORDERS`."""
    package = find(str(place))
    problem = package.family.problem(PROBLEMS[package.family.name], "cuda")
    kernel = build(package, declared(package), problem, DEVICE)
    return [judged(package, kernel, order=order, eager=eager) for order, eager in ORDERS]


@pytest.mark.slow
@pytest.mark.parametrize("name", one_in(4, NAMES))
def test_default_config_is_correct_in_every_execution_order(name: str) -> None:
    assert verdicts(KERNELS / name) == [None] * len(ORDERS)


@pytest.mark.slow
@pytest.mark.parametrize("variant", one_in(8, FOUND), ids=lambda each: each.id)
def test_faulty_version_is_detected_in_at_least_one_execution_order(variant: WrongVariant, tmp_path: Path) -> None:
    place = tmp_path / variant.kernel
    shutil.copytree(KERNELS / variant.kernel, place)
    text = (place / variant.file).read_text()
    assert variant.old in text
    (place / variant.file).write_text(text.replace(variant.old, variant.new))
    assert any(verdicts(place))


def test_every_test_kernel_has_a_faulty_version() -> None:
    assert {variant.kernel for variant in WRONG_VARIANTS} == set(NAMES)
