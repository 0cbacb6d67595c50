"""The kernels of `tests/data/kernels` are measured on a GPU, and their wrong variants are refused."""

from pathlib import Path

import pytest

from evo.device import Device
from evo.trial.outcome import Measured, WrongAnswer
from tests.gpu.kernels import Changeable
from tests.gpu.record import Recorder
from tests.integration.test_kernels_compile import KERNELS, NAMES, skip_without_headers
from tests.integration.wrong_variants import WRONG_VARIANTS, WrongVariant
from workers.backends.cuda.compilers.nvcc import NvccCompiler
from workers.backends.cuda.tools.sanitizer import CudaSanitizer, read

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def kernels(gpu: Device, cache: Path, tmp_path: Path) -> Changeable:
    return Changeable(families=KERNELS, gpu=gpu, cache=cache, copies=tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_correct_cuda_kernel_is_measured(kernels: Changeable, name: str) -> None:
    report = kernels.measured(name)
    skip_without_headers(report.outcome)
    assert isinstance(report.outcome, Measured), report.outcome


@pytest.mark.parametrize("variant", WRONG_VARIANTS, ids=lambda variant: variant.id)
def test_faulty_version_of_a_cuda_kernel_is_refused(kernels: Changeable, variant: WrongVariant) -> None:
    report = kernels.measured(variant.kernel, (variant.file, variant.old, variant.new))
    skip_without_headers(report.outcome)
    assert isinstance(report.outcome, WrongAnswer) or races(kernels, variant.kernel), report.outcome


def races(kernels: Changeable, name: str) -> bool:
    """Return True if racecheck finds a race. The outputs on this GPU may be right despite a race."""
    recorder = Recorder(kernels.gpu, kernels.cache, kernels.copies)
    with recorder.subject(str(kernels.copies / name), "", None) as subject:
        _, log = CudaSanitizer.here().run_tool("racecheck", [subject], timeout_s=60)
    return bool(read("racecheck", log).findings)


@pytest.mark.skipif(NvccCompiler().command is None, reason="nvcc is not installed")
@pytest.mark.parametrize("name", ["dequantize", "prefix_sum", "template_scale"])
def test_kernel_compiled_by_nvcc_is_measured(kernels: Changeable, name: str) -> None:
    report = kernels.measured(name, ("family.toml", "[cuda]\n", '[cuda]\ncompiler = "nvcc"\n'))
    assert isinstance(report.outcome, Measured), report.outcome


def test_kernel_with_outputs_initialised_outside_the_timing_is_measured(kernels: Changeable) -> None:
    report = kernels.measured("histogram", ("family.toml", "init = 0", "init = { value = 0, timed = false }"))
    assert isinstance(report.outcome, Measured), report.outcome
