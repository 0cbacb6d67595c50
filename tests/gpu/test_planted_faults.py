"""Verification or a sanitizer finds every planted fault on a GPU, and no faulty kernel is promoted."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evo.device import Ceilings, Device
from evo.messages.job import Confirm, Evaluate, FamilyRef, SearchTerms
from evo.promotion import Verdict, judge
from evo.promotion.policy import Policy
from evo.trial import Config
from evo.trial.objective import Objective
from evo.trial.outcome import Crashed, Impossible, Measured, Outcome, OverResources, TimedOut, WrongAnswer
from evo.trial.results import ConfirmReport
from templates.registry import find
from tests.gpu.record import Recorder
from workers.backends.cuda.tools.sanitizer import CudaSanitizer, read
from workers.backends.cuda.tools.toolkit import find_tool
from workers.build.families import Assignment, Families
from workers.jobs.evaluation import Evaluator

pytestmark = pytest.mark.gpu

FAMILY = Path(__file__).parent.parent / "data" / "families" / "faulty_cuda"
POLICY = Policy(
    quick_samples=10,
    confirm_samples=20,
    confirm_processes=5,
    process_samples=10,
    verify_timeout_s=60.0,
    measure_timeout_s=60.0,
    seeds=2,
)


class Workshop:
    """Evaluates and confirms kernels with planted faults on one GPU."""

    def __init__(self, gpu: Device, folder: Path, family: Path = FAMILY, tunable: str = "FAULT") -> None:
        self.gpu, self.tunable = gpu, tunable
        self.package = find(str(family))
        self.evaluator = Evaluator("cuda", folder / "cache", folder)
        self.copy = Families(folder / "families").add(self.package)

    def outcome(self, fault: str, *, policy: Policy = POLICY, device: Device | None = None) -> Outcome:
        work = self.assignment(policy=policy, device=device)
        config: Config = {self.tunable: fault, "REPEAT": 1}
        return self.evaluator.evaluate(
            work, Evaluate(number=0, config=config), self.evaluator.build(work, config)
        ).outcome

    def confirmed(self, fault: str) -> tuple[ConfirmReport, Verdict]:
        """Confirm a faulty kernel against a correct but slow incumbent, which repeats all work eight times."""
        work = self.assignment()
        slow: Config = {self.tunable: "none", "REPEAT": 8}
        job = Confirm(challenger={self.tunable: fault, "REPEAT": 1}, incumbent=slow, seed=5)
        report = self.evaluator.confirm(work, job, self.evaluator.prepare(work, job))
        return report, judge(report, POLICY, 1, np.random.default_rng(0))

    def assignment(
        self, problem: str = "N=256", *, policy: Policy = POLICY, device: Device | None = None
    ) -> Assignment:
        """Return an assignment of a search. The default of `device` is the evaluator's GPU."""
        family = self.package.family
        terms = SearchTerms(
            search_id=1,
            family=FamilyRef(name=family.name, digest=self.package.digest, location=self.package.location),
            problem=family.problem(problem, "cuda"),
            device=device or self.gpu,
            objective=Objective(),
            policy=policy,
            seed=7,
        )
        return Assignment(terms=terms, copy=self.copy)


@pytest.fixture(scope="module")
def workshop(gpu: Device, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    made = Workshop(gpu, tmp_path_factory.mktemp("workshop"))
    yield made
    made.evaluator.close()


@pytest.mark.parametrize(
    ("fault", "kind", "reason"),
    [
        ("out_of_bounds_write", WrongAnswer, "writes out of bounds: 4 bytes of the guard band after `y`"),
        ("uninitialised_shared", WrongAnswer, "`y` contains NaN or infinity in 256 of 256 elements"),
        ("unwritten", WrongAnswer, "`y` has 3 of 256 elements never written, the first at [7]"),
        ("stale", WrongAnswer, "`y` has 256 of 256 elements never written"),
        ("input", WrongAnswer, "modifies its input `x`"),
        ("tail", WrongAnswer, "case tail: `y` differs from the reference"),
        ("peaked", WrongAnswer, "case peaked: `y` differs from the reference"),
        ("second", WrongAnswer, "launch 2 on the same input: `y` differs from the reference"),
        ("random", WrongAnswer, "not deterministic"),
        ("rounded", WrongAnswer, "`y` differs from the reference"),
        ("too_much_shared", OverResources, "shared"),
        ("illegal", Crashed, "llegal"),
    ],
)
def test_kernel_with_a_planted_fault_fails_verification(
    workshop: Workshop, fault: str, kind: type[Outcome], reason: str
) -> None:
    outcome = workshop.outcome(fault)
    assert isinstance(outcome, kind), outcome
    assert reason in str(outcome)


def test_endless_kernel_is_stopped(workshop: Workshop) -> None:
    outcome = workshop.outcome("hang", policy=replace(POLICY, verify_timeout_s=10.0))
    assert isinstance(outcome, TimedOut)


def test_time_below_the_roofline_limit_is_reported_as_impossible(workshop: Workshop) -> None:
    ceilings = Ceilings(flops_per_s={"float32": 1.0}, bytes_per_s=1.0, source="table")
    outcome = workshop.outcome("none", device=replace(workshop.gpu, ceilings=ceilings))
    assert isinstance(outcome, Impossible)


@pytest.mark.parametrize(
    ("fault", "tool", "finding"),
    [
        ("out_of_bounds_read", "memcheck", "Invalid __global__ read of size 4 bytes"),
        ("race", "racecheck", "Race reported"),
        ("uninitialised_workspace", "initcheck", "Uninitialized __global__ memory read"),
    ],
)
def test_kernel_with_a_sanitizer_finding_is_not_promoted(
    workshop: Workshop, fault: str, tool: str, finding: str
) -> None:
    if find_tool("compute-sanitizer") is None:
        pytest.skip("compute-sanitizer is not installed on this machine")
    assert isinstance(workshop.outcome(fault), Measured)
    report, verdict = workshop.confirmed(fault)
    found = {each.tool: each for each in report.sanitizers}
    assert finding in " ".join(found[tool].findings), report.sanitizers
    assert not verdict.promote
    assert verdict.summary.startswith("Not promoted. Sanitizers found")


def test_occasionally_wrong_kernel_is_not_promoted(workshop: Workshop) -> None:
    report, verdict = workshop.confirmed("rare")
    assert report.answers is not None
    assert report.answers.wrong > 0
    assert not verdict.promote
    assert "checked timed calls gave a wrong answer" in verdict.summary


def test_memcheck_reports_reads_beyond_a_buffer_of_1024_bytes(gpu: Device, tmp_path: Path) -> None:
    """Without padding, the bytes after a buffer of 1,024 bytes would belong to the next buffer."""
    if find_tool("compute-sanitizer") is None:
        pytest.skip("compute-sanitizer is not installed on this machine")
    recorder = Recorder(gpu, tmp_path, tmp_path)
    with recorder.subject(str(FAMILY), "N=256", {"FAULT": "out_of_bounds_read", "REPEAT": 1}) as subject:
        _, log = CudaSanitizer.here().run_tool("memcheck", [subject], timeout_s=60)
    assert "Invalid __global__ read of size 4 bytes" in " ".join(read("memcheck", log).findings)


@pytest.mark.parametrize(
    ("fault", "tool"),
    [
        ("out_of_bounds_read", "memcheck"),
        ("race", "racecheck"),
        ("uninitialised_workspace", "initcheck"),
    ],
)
def test_sanitizer_finds_a_fault_in_a_later_case_of_the_same_run(
    gpu: Device, tmp_path: Path, fault: str, tool: str
) -> None:
    """The buffers of the second case may have the addresses of the first, whose bytes were written."""
    if find_tool("compute-sanitizer") is None:
        pytest.skip("compute-sanitizer is not installed on this machine")
    recorder = Recorder(gpu, tmp_path, tmp_path)
    with (
        recorder.subject(str(FAMILY), "N=256", {"FAULT": "none", "REPEAT": 1}) as correct,
        recorder.subject(str(FAMILY), "N=256", {"FAULT": fault, "REPEAT": 1}) as faulty,
    ):
        assert not any(each.findings for each in CudaSanitizer.here().examine([correct, correct], timeout_s=60))
        found = {each.tool: each for each in CudaSanitizer.here().examine([correct, faulty], timeout_s=60)}
    assert found[tool].findings, found


def test_correct_faster_kernel_passes_all_checks_and_is_promoted(
    workshop: Workshop,
) -> None:
    report, verdict = workshop.confirmed("none")
    assert report.failure is None, report.failure
    assert all(not each.findings for each in report.sanitizers), report.sanitizers
    assert verdict.promote, verdict.summary
    assert len(report.repeats) == POLICY.confirm_processes - 1  # a gain this large is decided at the first interim test
    assert verdict.prediction is not None
    if find_tool("ncu") is not None:
        assert set(report.profiles) == {"challenger", "incumbent"}
        figures = report.profiles["challenger"].figures
        assert report.profiles["challenger"].skipped or figures["registers"] >= 8
