"""Kernels that change their arguments or need initial values are measured on the CPU; wrong variants are refused."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from evo.device import Device
from evo.trial.objective import Objective
from evo.trial.outcome import Measured, WrongAnswer
from evo.trial.results import EvaluateReport
from templates.registry import find
from tests.integration.workbench import QUICK, cpu
from tests.measured import measured
from workers.jobs.evaluation import Evaluator
from workers.jobs.single import evaluate_config

KERNELS = Path(__file__).parent.parent / "data" / "kernels"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return measured(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def device(cache: Path) -> Device:
    """Return this CPU without the rates of its memory and arithmetic, which take seconds to measure.

    The device has a separate id, so that these tests do not wait for other measurements on this machine.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("workers.backends.cpu.device.load_ceilings", lambda *_: None)
        return replace(cpu(cache), uuid=f"cpu-{cache.parent.name}-{cache.name}")


@pytest.fixture(autouse=True)
def _without_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the rule `work`, which takes half of the time and whose result no test of this file reads."""
    monkeypatch.setattr(Evaluator, "doubt", lambda *_: None)


class Kernels:
    """Measures families of `KERNELS`, unchanged or with replaced text."""

    def __init__(self, device: Device, cache: Path, folder: Path) -> None:
        self._device, self._cache, self._folder = device, cache, folder

    def measured(self, name: str, *changes: tuple[str, str, str], threads: int = 1, **problem: int) -> EvaluateReport:
        """Measure the default config and return the report. A change is (file, text to replace, replacement)."""
        place = Path(tempfile.mkdtemp(dir=self._folder)) / name
        shutil.copytree(KERNELS / name, place)
        for file, old, new in changes:
            text = (place / file).read_text()
            assert old in text
            (place / file).write_text(text.replace(old, new))
        package = find(str(place))
        chosen = package.family.problem(problem, "cpu")
        objective = Objective(threads=threads)
        space = package.family.space(chosen, self._device, objective)
        return evaluate_config(
            package,
            space.default(),
            problem=chosen,
            objective=objective,
            device=self._device,
            folder=self._cache,
            policy=QUICK,
        ).report


@pytest.fixture
def kernels(device: Device, cache: Path, tmp_path: Path) -> Kernels:
    return Kernels(device, cache, tmp_path)


def refused(report: EvaluateReport) -> str:
    assert isinstance(report.outcome, WrongAnswer), report.outcome
    return report.outcome.reason


def test_in_place_kernel_is_measured(kernels: Kernels) -> None:
    report = kernels.measured("saxpy_in_place")
    assert isinstance(report.outcome, Measured), report.outcome


@pytest.mark.slow
def test_restoring_in_place_arguments_is_not_timed(kernels: Kernels) -> None:
    """A kernel that leaves a large in-place argument unchanged takes far less time than a kernel that changes it.

    If restoring were timed, both kernels would take longer than a copy of the argument.
    """
    idle = ("saxpy.c", "y[i] += a * x[i];", "y[i] += 0 * (x[i] + a);")
    stop = ("saxpy.c", "int i = 0;", "int i = N - 1;")
    exact = ("reference.py", '2.5 * inputs["x"].astype(np.float64) + inputs["y"]', 'inputs["y"].astype(np.float64)')
    nothing = kernels.measured("saxpy_in_place", stop, idle, exact, N=1 << 18).outcome
    everything = kernels.measured("saxpy_in_place", N=1 << 18).outcome
    assert isinstance(nothing, Measured), nothing
    assert isinstance(everything, Measured), everything
    shortest, longer = (min(each.timing.samples_us) for each in (nothing, everything))  # other programs only add time
    assert shortest < longer / 2


def test_kernel_that_changes_its_input_is_refused(kernels: Kernels) -> None:
    writing = ("saxpy.c", "y[i] += a * x[i];", "((float *)x)[i] = 0, y[i] += a * x[i];")
    assert "modifies its input `x`" in refused(kernels.measured("saxpy_in_place", writing))


def test_in_place_kernel_that_skips_elements_is_refused(kernels: Kernels) -> None:
    reason = refused(kernels.measured("saxpy_in_place", ("saxpy.c", "for (; i < N; i++)", "for (; i < N - 1; i++)")))
    assert "`y` differs from the reference" in reason


@pytest.mark.slow
def test_in_place_kernel_that_computes_only_on_its_first_call_is_refused(kernels: Kernels) -> None:
    once = ("saxpy.c", "    int i = 0;", "    static int calls;\n    int i = calls++ ? N : 0;")
    refused(kernels.measured("saxpy_in_place", once))


@pytest.mark.parametrize("init", ["init = 0", "init = { value = 0, timed = false }"])
def test_kernel_that_adds_to_a_zeroed_output_is_measured(kernels: Kernels, init: str) -> None:
    report = kernels.measured("histogram", ("family.toml", "init = 0", init))
    assert isinstance(report.outcome, Measured), report.outcome


def test_kernel_that_adds_to_an_output_without_initial_value_is_refused(kernels: Kernels) -> None:
    refused(kernels.measured("histogram", ("family.toml", "init = 0, ", "")))


DRIFTING = (
    "saxpy.c",
    "for (; i < N; i++) y[i] += a * x[i];",
    "static int call;\n    call++;\n    for (; i < N; i++) y[i] += a * x[i] * (1 + call % 3 * 1e-7f);",
)


def test_outputs_of_a_nondeterministic_family_may_vary_within_the_tolerance(kernels: Kernels) -> None:
    one_by_one = ("family.toml", "UNROLL = [1, 2, 4, 8]", "UNROLL = [16777217]")
    declared = ("family.toml", 'title = "y', 'deterministic = false\ntitle = "y')
    report = kernels.measured("saxpy_in_place", one_by_one, declared, DRIFTING)
    assert isinstance(report.outcome, Measured), report.outcome


def test_sort_with_a_verify_function_may_order_equal_keys_in_any_way(kernels: Kernels) -> None:
    report = kernels.measured("bitonic_sort", LOG=6)
    assert isinstance(report.outcome, Measured), report.outcome


def test_outputs_rejected_by_verify_count_as_wrong(kernels: Kernels) -> None:
    short = ("sort.c", "size <= n", "size < n")
    assert "verify() refuses the outputs: keys descend" in refused(kernels.measured("bitonic_sort", short, LOG=6))


@pytest.mark.parametrize("threads", [1, 2])
def test_kernel_in_cpp_with_openmp_is_measured(kernels: Kernels, threads: int) -> None:
    """The threads of OpenMP outlive a call, but write no outputs after it."""
    report = kernels.measured("convolution", threads=threads, H=66, W=70)
    assert isinstance(report.outcome, Measured), report.outcome


@pytest.mark.parametrize(
    ("old", "new"),
    [("y < std::min(top + TILE_H, H - 2)", "y < std::min(top + TILE_H, H - 3)"), ("i < 3", "i < 2")],
    ids=["last row not written", "last weights skipped"],
)
def test_wrong_kernel_with_openmp_is_refused(kernels: Kernels, old: str, new: str) -> None:
    refused(kernels.measured("convolution", ("convolution.cpp", old, new), H=66, W=70))


def test_kernel_with_data_dependent_output_length_is_measured(kernels: Kernels) -> None:
    report = kernels.measured("compaction")
    assert isinstance(report.outcome, Measured), report.outcome
