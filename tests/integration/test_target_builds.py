"""A search with a target builds each config twice: limits are checked for the target; the local device is timed."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evo.device import Device
from evo.device.estimate.target import known
from evo.family import Launch
from evo.messages.job import Baseline, Evaluate, FamilyRef, SearchTerms
from evo.promotion.policy import Policy
from evo.trial.objective import Objective
from evo.trial.outcome import CompileFailed, Estimated, InvalidConfig, OverResources
from evo.trial.results import BaselineReport, EvaluateReport
from templates.registry import find
from workers.backends.cuda.compilers.nvrtc import NvrtcCompiler
from workers.build import Artefact, Resources, Unit
from workers.build.build import Builder, Built
from workers.build.cache import Cache
from workers.build.families import Assignment, Families
from workers.jobs.estimated import Estimator, aimed

L4, H100 = known("sm_89"), known("sm_90")
STAND_IN = Device(kind="estimate", model="compiler alone", architecture="any target", uuid="e")
TARGET = Objective(target="NVIDIA L4")


class FakeCompiler:
    """A fake compiler whose builds use a given number of registers per architecture."""

    version, suffix, sandbox = "pretended", ".cubin", ""

    def __init__(self, **registers: int) -> None:
        self.registers = registers
        self.asked: list[str] = []

    def compile(self, unit: Unit, *, timeout_s: float) -> Artefact | CompileFailed:
        self.asked.append(unit.architecture)
        log = f"for {unit.architecture}"
        return Artefact(binary=log.encode(), log=log, figures={"registers": self.registers.get(unit.architecture, 64)})

    def resources(self, artefact: Artefact, launch: Launch | None, device: Device) -> Resources:
        return NvrtcCompiler.resources(self, artefact, launch, device)  # type: ignore[arg-type]

    def refusal(self, resources: Resources, launch: Launch | None, device: Device) -> OverResources | None:
        return NvrtcCompiler.refusal(self, resources, launch, device)  # type: ignore[arg-type]


def work(
    folder: Path,
    device: Device,
    objective: Objective,
    *,
    family: str = "softmax",
    problem: str = "rows=512,cols=1024",
    **changes: Any,
) -> Assignment:
    package = find(family)
    terms = SearchTerms(
        search_id=1,
        family=FamilyRef(name=package.family.name, digest=package.digest),
        problem=package.family.problem(problem, "cuda"),
        device=device,
        objective=objective,
        policy=Policy(**changes),
        seed=0,
    )
    return Assignment(terms=terms, copy=Families(folder / "families").add(package))


def build(folder: Path, compiler: FakeCompiler, **changes: Any) -> Built:
    assignment = work(folder, H100, TARGET, **changes)
    return Builder(compiler, Cache(folder / "cache"), folder).build(assignment, default(assignment))


def default(assignment: Assignment) -> Any:
    return assignment.copy.family.space(assignment.terms.problem, L4, TARGET).default()


def test_resource_limits_apply_to_the_build_for_the_target_gpu(tmp_path: Path) -> None:
    compiler = FakeCompiler(sm_89=120, sm_90=60)
    refused = build(tmp_path, compiler, max_registers=96)
    assert refused.refusal == OverResources(resource="registers", used=120, limit=96)
    assert set(compiler.asked) == {"sm_89"}, "a refused config must not be built for the local device"


def test_search_for_a_target_gpu_times_the_build_for_the_local_device(tmp_path: Path) -> None:
    built = build(tmp_path, FakeCompiler(sm_89=60, sm_90=120), max_registers=96)
    assert built.refusal is None
    assert built.binary == b"for sm_90"
    assert {Path(kernel.path).read_bytes() for kernel in built.kernels.values()} == {b"for sm_90"}
    assert (built.resources["registers"], built.resources["native_registers"]) == (60, 120)
    assert re.findall(r"sm_\d+", built.log)[:1] == ["sm_89"]
    assert "sm_90" in built.log


def test_config_that_the_local_device_cannot_launch_is_refused(tmp_path: Path) -> None:
    narrow = replace(H100, limits={**H100.limits, "max_threads": 32.0})
    assignment = work(tmp_path, narrow, TARGET)
    built = Builder(FakeCompiler(), Cache(tmp_path / "cache"), tmp_path / "narrow").build(
        assignment, default(assignment)
    )
    assert isinstance(built.refusal, OverResources | InvalidConfig)


def test_build_digest_covers_the_builds_for_target_and_local_device(tmp_path: Path) -> None:
    def digest(name: str, make: Callable[[], FakeCompiler]) -> str | None:
        (tmp_path / name).mkdir()
        return build(tmp_path / name, make()).digest

    class Other(FakeCompiler):
        def compile(self, unit: Unit, *, timeout_s: float) -> Artefact | CompileFailed:
            made = super().compile(unit, timeout_s=timeout_s)
            assert isinstance(made, Artefact)
            return replace(made, binary=b"other") if unit.architecture == "sm_89" else made

    assert digest("a", FakeCompiler) == digest("b", FakeCompiler) != digest("c", Other)


def test_estimate_compiles_only_for_the_target_and_runs_no_kernel(tmp_path: Path) -> None:
    compiler = FakeCompiler(sm_89=200)
    estimator, assignment = Estimator(lambda: compiler, tmp_path / "cache", tmp_path), work(tmp_path, STAND_IN, TARGET)
    job = Evaluate(number=0, config=default(assignment))
    report = estimator.perform(assignment, job, estimator.prepare(assignment, job))
    assert isinstance(report, EvaluateReport)
    assert isinstance(report.outcome, Estimated)
    assert set(compiler.asked) == {"sm_89"}
    assert report.outcome.resources["registers"] == 200
    assert not [name for name in report.outcome.resources if name.startswith("native_")]
    assert report.outcome.time_us > report.outcome.parts["floor_us"]
    assert report.binary_digest
    assert aimed(assignment).terms.device == L4
    baselines = estimator.perform(assignment, Baseline(), {})
    assert isinstance(baselines, BaselineReport)
    assert baselines.timings == {}
    assert "runs no kernels" in baselines.unavailable["all"]


@pytest.mark.slow
def test_estimate_for_attention_ignores_copying_warps_and_counts_padded_keys(tmp_path: Path) -> None:
    estimator = Estimator(lambda: FakeCompiler(sm_89=64), tmp_path / "cache", tmp_path)
    assignment = work(tmp_path, STAND_IN, TARGET, family="sdpa", problem="B=2,H=8,S=500,D=64")
    tile = {"BLOCK_M": 64, "WARPS_M": 4, "BLOCK_N": 64, "COPY_TOGETHER": False, "K_STAGES": 1, "V_STAGES": 1}
    parts = {}
    for producers in (0, 4):
        job = Evaluate(number=producers, config=default(assignment) | tile | {"PRODUCER_WARPS": producers})
        report = estimator.perform(assignment, job, estimator.prepare(assignment, job))
        assert isinstance(report, EvaluateReport) and isinstance(report.outcome, Estimated)
        parts[producers] = report.outcome.parts
    assert parts[0] == parts[4], "three blocks with four compute warps each fit, in addition to the copying warps"
    assert parts[0]["balance"] == 128 / (58 * 3)
    assert parts[0]["hiding"] == 3 / 4
    exact = work(tmp_path, STAND_IN, TARGET, family="sdpa", problem="B=2,H=8,S=512,D=64")
    full = aimed(exact).copy.family.candidate(job.config, exact.terms.problem, L4, TARGET)
    assert full.effort == 1.0
    assert parts[0]["floor_us"] == pytest.approx(8.862, abs=0.01), "keys beyond 500 count as computed"


def test_estimate_beyond_the_resource_limits_is_refused(tmp_path: Path) -> None:
    estimator = Estimator(lambda: FakeCompiler(sm_89=200), tmp_path / "cache", tmp_path)
    assignment = work(tmp_path, STAND_IN, TARGET, max_registers=96)
    job = Evaluate(number=0, config=default(assignment))
    report = estimator.perform(assignment, job, estimator.prepare(assignment, job))
    assert isinstance(report, EvaluateReport)
    assert isinstance(report.outcome, OverResources)
