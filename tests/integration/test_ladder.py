"""Kernels with each kind of fault are compiled and run; each outcome states the kind and the reason."""

import os
import re
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from evo.device import Ceilings, Device
from evo.messages.job import Ablate, Confirm, Evaluate
from evo.promotion import judge
from evo.promotion.policy import Policy
from evo.trial.objective import Objective
from evo.trial.outcome import (
    CompileFailed,
    Crashed,
    Impossible,
    InvalidConfig,
    InvalidMeasurement,
    LaunchFailed,
    Measured,
    Pruned,
    ReferenceFailed,
    TimedOut,
    WrongAnswer,
)
from evo.trial.results import ConfirmReport, EvaluateReport
from evo.trial.timing import Bars
from templates.registry import find
from tests.integration.workbench import FAMILIES, QUICK, config, cpu, faulty, terms
from tests.measured import measured
from tests.processes import arguments_of, ended, running_with
from tests.tiers import one_in
from workers.build.families import Assignment, Families
from workers.jobs import evaluation
from workers.jobs.confirmation import NOT_WON
from workers.jobs.evaluation import Evaluator
from workers.jobs.single import evaluate_config
from workers.jobs.stopwatch import Status
from workers.runner.child import Child
from workers.runner.pool import TroubleError, open_limit_s
from workers.runner.protocol import Sampled
from workers.system.device_lock import exclusive


class Workshop:
    """Evaluates configs of the faulty family on this CPU."""

    def __init__(self, device: Device, folder: Path, scratch: Path) -> None:
        self.device = device
        self.evaluator = Evaluator("cpu", folder, scratch)
        self.copy = Families(scratch / "families").add(faulty())

    def work(self, *, device: Device | None = None, **changes: Any) -> Assignment:
        return Assignment(terms=terms(device or self.device, faulty(), **changes), copy=self.copy)

    def report(self, fault: str = "none", unroll: int = 1, bars: Bars = Bars(), **changes: Any) -> EvaluateReport:
        work = self.work(**changes)
        job = Evaluate(number=0, config=config(fault, unroll), bars=bars)
        return self.evaluator.evaluate(work, job, self.evaluator.build(work, job.config))


SHORT = """
import numpy
def inputs(problem, distribution, rng): return {"x": rng.standard_normal(problem["N"]).astype("float32")}
def reference(problem, inputs): return {"y": numpy.zeros(2)}
yardstick = reference
"""


HANGING = "    import time\n    return lambda: time.sleep(600)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return measured(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def device(folder: Path) -> Device:
    """Return a device with a small last-level cache, so that cold buffers are filled quickly."""
    found = cpu(folder)
    return replace(found, limits={**found.limits, "l3_bytes": 65536.0})


@pytest.fixture
def workshop(device: Device, folder: Path, tmp_path: Path) -> Iterator[Workshop]:
    workshop = Workshop(device, folder, tmp_path)
    yield workshop
    workshop.evaluator.close()


@pytest.mark.slow
def test_correct_kernel_is_verified_on_every_case_and_timed_in_both_cache_modes(workshop: Workshop) -> None:
    report = workshop.report()
    outcome = report.outcome
    assert isinstance(outcome, Measured)
    assert [case.case for case in outcome.cases] == ["nominal", "nominal", "tail", "peaked"]
    assert all(case.passed for case in outcome.cases)
    assert len(outcome.timing.samples_us) == QUICK.quick_samples
    assert outcome.timing.calls_per_sample > 1
    assert outcome.timing.anchor_us and outcome.timing.floor_us
    assert outcome.other is not None
    assert {"load", "cores"} <= report.environment.keys()
    stages = report.stages
    assert min(stages.render_s, stages.compile_s, stages.verify_s, stages.measure_s) > 0


@pytest.mark.parametrize("fault", one_in(2, ["fork", "fork_late", "daemon", "copy"]))
def test_kernel_that_uses_a_function_for_starting_processes_is_refused(workshop: Workshop, fault: str) -> None:
    outcome = workshop.report(fault).outcome
    assert isinstance(outcome, LaunchFailed)
    assert outcome.reason.startswith("the kernel uses fork")


@pytest.mark.parametrize(
    ("fault", "reason"),
    one_in(
        3,
        [
            ("overrun", "case nominal: writes out of bounds: 4 bytes of the guard band after `y`, the nearest 8 bytes"),
            ("underrun", "case nominal: writes out of bounds: 4 bytes of the guard band before `work`"),
            ("nan", "case nominal: `y` contains NaN or infinity in 1 of 256 elements"),
            ("unwritten", "case nominal: `y` has 3 of 256 elements never written, the first at [7]"),
            ("input", "case nominal: modifies its input `x`"),
            ("tail", "case tail: `y` differs from the reference by rel_l2"),
            ("second", "case nominal, launch 2 on the same input: `y` differs from the reference"),
            ("random", "case nominal, launch 2 on the same input: not deterministic"),
            ("stale", "case nominal, launch 2 on the same input: `y` has 256 of 256 elements never written"),
            ("address", "case nominal: `y` differs from the reference by rel_l2"),
            ("peaked", "case nominal with a lone largest element: `y` differs from the reference"),
            ("rounded", "case nominal: `y` differs from the reference by rel_l2"),
            ("straggler", "case nominal: still writes its outputs after it returned"),
            ("thread", "case nominal: leaves 1 thread running after it returned; the objective allows 1 thread"),
            ("late", "10 of 10 verified timed calls are wrong; verified call 1: `y` differs from the reference"),
            ("read", "case nominal: reads out of bounds: 0 bytes after `x`"),
        ],
    ),
)
def test_wrong_answer_outcome_names_the_fault(workshop: Workshop, fault: str, reason: str) -> None:
    outcome = workshop.report(fault).outcome
    assert isinstance(outcome, WrongAnswer)
    assert outcome.reason.startswith(reason)


def test_nondeterministic_kernel_is_measured_unless_the_objective_forbids_it(workshop: Workshop) -> None:
    assert isinstance(workshop.report("random", objective=Objective(deterministic=False)).outcome, Measured)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "reason"),
    one_in(
        2,
        [
            ("crash", "killed by SIGSEGV"),
            ("abort", "killed by SIGABRT"),
            ("exit", "ended with status 0 before it was finished"),
        ],
    ),
)
def test_crash_is_reported_with_its_cause_and_the_next_trial_is_measured(
    workshop: Workshop, fault: str, reason: str
) -> None:
    outcome = workshop.report(fault).outcome
    assert isinstance(outcome, Crashed)
    assert (outcome.stage, outcome.reason[: len(reason)]) == ("verify", reason)
    assert isinstance(workshop.report().outcome, Measured)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["parent", "group"])
def test_kernels_that_use_forbidden_system_calls_are_refused(workshop: Workshop, fault: str) -> None:
    outcome = workshop.report(fault).outcome
    assert isinstance(outcome, LaunchFailed)
    assert outcome.reason.startswith(
        ("the kernel uses kill: a kernel may only compute", "the kernel uses getppid, kill: a kernel may only compute")
    )


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["runner", "kernel"])
def test_trial_is_repeated_after_its_process_is_killed_by_another_process(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, victim: str
) -> None:
    left = 1
    measure = evaluation._measure

    def disturbed(child: Child, *arguments: Any) -> Sampled:
        nonlocal left
        if left:
            left -= 1
            started = psutil.Process(child.pid).children(recursive=True)
            below = [each for each in started if not ended(each)]
            kernels = [each for each in below if arguments_of(each)[:1] == ["kernel"]]
            victims = kernels if victim == "kernel" else [each for each in below if each not in kernels]
            for each in victims:
                each.kill()
        return measure(child, *arguments)

    monkeypatch.setattr(evaluation, "_measure", disturbed)
    report = workshop.report()
    assert isinstance(report.outcome, Measured), report.outcome
    assert report.environment["killed"].startswith("processes were killed in 1 earlier attempt")


@pytest.mark.slow
def test_crash_reason_contains_the_last_output_of_the_kernel(workshop: Workshop) -> None:
    outcome = workshop.report("abort").outcome
    assert isinstance(outcome, Crashed)
    assert "; its last output: a last word" in outcome.reason


def test_hanging_kernel_and_its_processes_are_killed_at_the_time_limit(workshop: Workshop) -> None:
    before = {child.pid for child in psutil.Process().children()}
    outcome = workshop.report("hang", policy=replace(QUICK, verify_timeout_s=0.5)).outcome
    assert outcome == TimedOut(stage="verify", limit_s=0.5)
    assert {child.pid for child in psutil.Process().children()} <= before


def test_kernel_that_allocates_endlessly_crashes_at_the_memory_limit(workshop: Workshop) -> None:
    policy = replace(QUICK, memory_limit_bytes=256 << 20)
    outcome = workshop.report("allocate", policy=policy).outcome
    assert isinstance(outcome, Crashed)
    stated = re.search(r"peak memory (\d+) MiB", outcome.reason)
    assert stated is not None, outcome.reason
    assert 200 < int(stated[1]) < 600  # the memory of the kernel alone, without the memory that the process used before


def test_kernel_may_print_to_standard_output(workshop: Workshop) -> None:
    assert isinstance(workshop.report("print").outcome, Measured)


def test_compile_failed_outcome_contains_the_message_of_the_compiler(workshop: Workshop) -> None:
    report = workshop.report("syntax")
    assert isinstance(report.outcome, CompileFailed)
    assert "kernel.c" in report.outcome.log
    assert report.stages.verify_s == 0


def test_template_error_names_the_file_and_the_undeclared_name(workshop: Workshop) -> None:
    outcome = workshop.report("render").outcome
    assert isinstance(outcome, InvalidConfig)
    assert outcome.reason.startswith("template kernel.c.j2:")
    assert "UNDECLARED" in outcome.reason


def test_case_that_violates_a_constraint_is_reported_as_uncovered(workshop: Workshop) -> None:
    eight = faulty().family.problem("N=8", "cpu")  # the tail case has 7 elements
    report = workshop.report(unroll=8, problem=eight)
    assert isinstance(report.outcome, Measured)
    assert {case.case for case in report.outcome.cases} == {"nominal", "peaked"}
    assert "an iteration must not exceed the array" in report.uncovered["tail"]


STAND_IN = """
[[cases]]
name = "longer"
inputs = "shifted"
problem = { N = "N + 3" }
instead_of = "tail"
"""


@pytest.mark.parametrize(("n", "meets"), [(8, {"nominal", "longer", "peaked"}), (64, {"nominal", "tail", "peaked"})])
def test_case_that_violates_a_constraint_is_replaced_with_its_declared_substitute(
    workshop: Workshop, tmp_path: Path, n: int, meets: set[str]
) -> None:
    family = tmp_path / "faulty"
    shutil.copytree(FAMILIES / "faulty", family)
    with (family / "family.toml").open("a", encoding="utf-8") as file:
        file.write(STAND_IN)
    workshop.copy = Families(tmp_path / "copies").add(find(str(family)))
    report = workshop.report(unroll=8, problem=faulty().family.problem(f"N={n}", "cpu"))
    assert isinstance(report.outcome, Measured)
    assert {case.case for case in report.outcome.cases} == meets
    assert not report.uncovered


def test_hopeless_candidate_is_pruned_and_its_outcome_has_the_samples(workshop: Workshop) -> None:
    outcome = workshop.report(bars=Bars(prune_us=1e-6, shorten_us=1e-7)).outcome
    assert isinstance(outcome, Pruned)
    assert (len(outcome.timing.samples_us), outcome.threshold_us) == (2, 1e-6)


def test_far_too_slow_candidate_is_pruned_before_verification(
    workshop: Workshop,
) -> None:
    outcome = workshop.report("slow_tail", bars=Bars(hopeless_us=1000.0)).outcome
    assert isinstance(outcome, Pruned) and not outcome.verified
    assert (outcome.timing.calls_per_sample, outcome.threshold_us) == (1, 1000.0)
    assert min(outcome.timing.samples_us) > 25_000.0
    # the same runner is used for the next candidate
    assert isinstance(workshop.report(bars=Bars(hopeless_us=1000.0)).outcome, Measured)


def test_trial_proposed_before_the_first_result_is_compared_with_the_fastest_kernel(
    workshop: Workshop,
) -> None:
    assert isinstance(workshop.report().outcome, Measured)
    outcome = workshop.report("slow_tail").outcome
    assert isinstance(outcome, Pruned) and not outcome.verified


def test_slow_kernel_is_verified_on_every_case_if_trials_are_ranked_by_a_metric(workshop: Workshop) -> None:
    by_block = Objective(metric="UNROLL")
    assert isinstance(workshop.report(objective=by_block).outcome, Measured)
    assert isinstance(workshop.report("slow_tail", objective=by_block).outcome, WrongAnswer)


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "hopeless_us"), one_in(2, [("tail", 1e-3), ("slow_tail", None), ("slow_tail", 1e6)]))
def test_candidate_that_is_not_hopelessly_slow_is_verified_on_every_case(
    workshop: Workshop, fault: str, hopeless_us: float | None
) -> None:
    outcome = workshop.report(fault, bars=Bars(hopeless_us=hopeless_us)).outcome
    assert isinstance(outcome, WrongAnswer) and "case tail" in outcome.reason


def test_slow_candidate_gets_fewer_samples_and_counts_as_measured(workshop: Workshop) -> None:
    outcome = workshop.report(bars=Bars(shorten_us=1e-6)).outcome
    assert isinstance(outcome, Measured) and outcome.other is None
    assert len(outcome.timing.samples_us) == 3


@pytest.mark.slow
def test_candidates_too_slow_for_an_elite_skip_the_checks_with_mixed_inputs(workshop: Workshop) -> None:
    for bars in (Bars(), Bars(shorten_us=1e6)):
        outcome = workshop.report("zero", bars=bars).outcome
        assert isinstance(outcome, WrongAnswer) and "differs from the reference" in outcome.reason
    slow = workshop.report("zero", bars=Bars(shorten_us=1e-6))
    assert isinstance(slow.outcome, Measured)
    assert "mixed inputs, two threads" in slow.environment.values()


def test_time_below_the_physical_limit_is_impossible(workshop: Workshop) -> None:
    ceilings = Ceilings(flops_per_s={"float32": 1.0}, bytes_per_s=1.0, source="table")
    outcome = workshop.report(device=replace(workshop.device, ceilings=ceilings)).outcome
    assert isinstance(outcome, Impossible)
    assert outcome.floor_us > outcome.timing.median_us


@pytest.mark.slow
def test_single_config_is_built_and_measured_without_a_service(device: Device, folder: Path) -> None:
    problem = faulty().family.problem("N=256", "cpu")
    evaluated = evaluate_config(faulty(), config(), problem=problem, device=device, folder=folder, policy=QUICK)
    assert isinstance(evaluated.report.outcome, Measured)
    assert evaluated.built.source is not None
    assert "void faulty" in evaluated.built.source
    assert not evaluated.built.folder.exists()


def test_cache_mode_of_the_objective_gets_more_samples_than_the_other_cache_mode(workshop: Workshop) -> None:
    # without peak rates, because the real last-level cache is larger than the device states
    device = replace(workshop.device, ceilings=None)
    hot = workshop.report(search_id=1, device=device, objective=Objective(cache="hot")).outcome
    cold = workshop.report(search_id=2, device=device, objective=Objective(cache="cold")).outcome
    assert isinstance(hot, Measured)
    assert isinstance(cold, Measured)
    assert hot.other is not None
    assert cold.other is not None
    assert len(cold.timing.samples_us) == len(hot.timing.samples_us) > len(cold.other.samples_us)


def test_measuring_works_without_a_writable_cache_and_reports_the_cause(workshop: Workshop, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    evaluator = Evaluator("cpu", tmp_path / "file" / "cache", tmp_path)
    work, job = workshop.work(), Evaluate(number=0, config=config())
    report = evaluator.evaluate(work, job, evaluator.build(work, job.config))
    evaluator.close()
    assert isinstance(report.outcome, Measured)
    assert "cannot be written (Not a directory)" in report.environment["cache"]


def test_broken_reference_is_reported_as_reference_failed(workshop: Workshop, tmp_path: Path) -> None:
    (workshop.copy.folder / "reference.py").write_text("import no_such_library")
    outcome = workshop.report(search_id=99).outcome
    assert isinstance(outcome, ReferenceFailed)
    assert "reference.py, import (line 1): ModuleNotFoundError: No module named 'no_such_library'" in outcome.reason


def test_compile_failure_is_reported_while_the_device_is_locked(device: Device, folder: Path) -> None:
    problem = faulty().family.problem("N=256", "cpu")
    with exclusive(device.uuid):
        evaluated = evaluate_config(
            faulty(), config("syntax"), problem=problem, device=device, folder=folder, policy=QUICK
        )
    assert isinstance(evaluated.report.outcome, CompileFailed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "reason"),
    one_in(
        3,
        [
            (
                "import time; time.sleep(600)",
                r"reference.py: inputs\(\) and reference\(\) did not end within 5 s; .*verify_timeout",
            ),
            (
                "import os; os._exit(3)",
                r"reference.py: the process that runs inputs\(\) and reference\(\) crashed: ended with status 3",
            ),
            ("raise SystemExit(3)", r"reference.py, import \(line 1\): SystemExit: 3"),
            (SHORT, r"reference.py, reference\(\): `y` of case nominal has shape \(2,\); family.toml declares"),
        ],
    ),
)
def test_evaluating_one_config_raises_the_cause_of_a_broken_reference(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, reason: str
) -> None:
    monkeypatch.setattr("workers.runner.pool.open_limit_s", lambda policy: 5.0 if "sleep" in text else 300.0)
    shutil.copytree(FAMILIES / "faulty", tmp_path / "faulty")
    (tmp_path / "faulty" / "reference.py").write_text(text)
    broken = find(str(tmp_path / "faulty"))
    with pytest.raises(TroubleError, match=reason):
        evaluate_config(broken, config(), problem=broken.family.problem("N=256", "cpu"), device=device, folder=tmp_path)


def test_reference_time_limit_is_at_least_60_s_and_four_times_that_of_a_candidate() -> None:
    assert open_limit_s(Policy(verify_timeout_s=1.0)) == 60.0
    assert open_limit_s(Policy(verify_timeout_s=100.0)) == 400.0


def guardians() -> list[psutil.Process]:
    """Return the guardians of this process's runners; kernel processes that were killed may still be zombies."""
    return running_with("workers.runner.guardian", psutil.Process().children())


@pytest.mark.slow
def test_runner_is_kept_after_measured_trials_and_replaced_after_a_wrong_answer(workshop: Workshop) -> None:
    pids = []
    for fault in ("none", "none", "syntax", "none", "nan", "none"):
        workshop.report(fault)
        runners = [each.pid for each in guardians()]
        pids.append(runners[0] if runners else None)
    assert pids[0] == pids[1] == pids[2] == pids[3] is not None
    assert pids[4] is None
    assert pids[5] not in {pids[0], None}


def test_runner_is_replaced_after_its_maximum_number_of_trials(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.runner.pool.MAX_TRIALS", 2)
    pids = []
    for _ in range(4):
        workshop.report()
        pids += [each.pid for each in guardians()]
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_runner_killed_between_trials_is_replaced(workshop: Workshop) -> None:
    workshop.report()
    (runner,) = guardians()
    os.kill(runner.pid, signal.SIGKILL)
    psutil.wait_procs([runner], timeout=60)
    assert isinstance(workshop.report().outcome, Measured)


def test_equal_builds_have_equal_digests_and_different_builds_do_not(workshop: Workshop) -> None:
    work = workshop.work()
    digests = [workshop.evaluator.build(work, config(unroll=unroll)).digest for unroll in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]


def test_baselines_are_timed_or_have_a_reason_for_their_absence(workshop: Workshop) -> None:
    report = workshop.evaluator.baseline(workshop.work())
    assert set(report.timings) == {"numpy"}
    assert len(report.timings["numpy"].samples_us) == QUICK.quick_samples
    assert report.unavailable == {
        "wrong": report.unavailable["wrong"],
        "absent": "the module no_such_library is not installed",
    }
    assert "its result differs from the reference" in report.unavailable["wrong"]


@pytest.mark.slow
def test_confirmation_interleaves_challenger_incumbent_and_baselines(workshop: Workshop) -> None:
    job = Confirm(challenger=config(unroll=2), incumbent=config(), seed=5)
    work = workshop.work()
    report = workshop.evaluator.perform(work, job, workshop.evaluator.prepare(work, job))
    assert report.failure is None
    series = [report.challenger, report.challenger_again, report.incumbent, *report.baselines.values()]
    assert {len(timing.samples_us) for timing in series} == {QUICK.confirm_samples}
    if "numpy" not in report.baselines:  # on some machines, NumPy takes more than 20 times as long as this kernel
        assert "left out" in report.environment["baseline numpy"]
    assert {case.case for case in report.cases} == {"nominal", "tail", "peaked"}
    assert "baseline absent" in report.environment


@pytest.mark.slow
def test_confirmation_omits_all_baselines_if_one_baseline_hangs(workshop: Workshop) -> None:
    source = workshop.copy.folder / "reference.py"
    source.write_text(source.read_text().replace('    x = inputs["x"]\n    return lambda: 2.0 * x', HANGING))
    assert HANGING in source.read_text()
    job = Confirm(challenger=config(), incumbent=None, seed=5)
    work = workshop.work(search_id=98, policy=replace(QUICK, measure_timeout_s=8.0))
    report = workshop.evaluator.perform(work, job, workshop.evaluator.prepare(work, job))
    assert isinstance(report, ConfirmReport)
    assert report.failure is None
    assert report.challenger is not None
    assert not report.baselines
    assert report.environment["baseline all"].startswith("with baselines, the comparison exceeded 16 s")


@pytest.mark.slow
@pytest.mark.parametrize("ahead", one_in(2, [False, True]))
def test_promising_challenger_is_sanitized_and_timed_in_more_processes(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, ahead: bool
) -> None:
    monkeypatch.setattr("workers.jobs.confirmation.overlaps", lambda _: ahead)
    monkeypatch.setattr("workers.jobs.confirmation.promising", lambda *_: True)
    monkeypatch.setattr("workers.jobs.confirmation.undecided", lambda found, *_: len(found.repeats) < 2)
    policy = replace(QUICK, confirm_processes=2, most_processes=4, process_looks=2, process_samples=5)
    work, job = workshop.work(policy=policy), Confirm(challenger=config(), incumbent=config(unroll=2), seed=5)
    said: list[str | None] = []
    one, further = "process 1 of 4 at most", [f"timing, process {process} of 4 at most" for process in (2, 3)]
    monkeypatch.setattr(Status, "say", lambda _, words: said.append(words))
    report = workshop.evaluator.perform(work, job, workshop.evaluator.prepare(work, job))
    assert said[:2] == [f"verifying, {one}", f"timing, {one}"]
    assert [str(words).partition("; so far ")[0] for words in said[2:]] == [*further, "sanitizing"]
    assert all("as fast as the incumbent" in str(words) for words in said[2:])
    assert [step.name for step in report.steps if step.process == 2][:3] == ["start", "device", "references"]
    assert {(step.process, step.name) for step in report.steps} >= {(1, "rounds"), (3, "rounds"), (0, "sanitizers")}
    memory, threads = report.sanitizers
    assert (memory.skipped, memory.findings) == (None, ())
    assert threads.skipped == "the kernel runs on one thread"
    assert report.repeated_against == "incumbent"
    assert [len(each.challenger.samples_us) for each in report.repeats] == [5, 5]
    assert isinstance(report, ConfirmReport)
    prediction = judge(report, policy, 1, np.random.default_rng(0)).prediction
    assert prediction is not None
    assert (prediction.rounds, len(prediction.found)) == (5, 3)
    assert prediction.speedup.low <= prediction.speedup.estimate <= prediction.speedup.high


@pytest.mark.slow
def test_unpromising_challenger_skips_sanitizers_and_more_processes(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.jobs.confirmation.promising", lambda *_: False)
    monkeypatch.setattr("workers.jobs.confirmation.undecided", lambda *_: False)
    work, job = workshop.work(), Confirm(challenger=config(), incumbent=config(unroll=2), seed=5)
    report = workshop.evaluator.perform(work, job, workshop.evaluator.prepare(work, job))
    assert [each.skipped for each in report.sanitizers] == [NOT_WON]
    assert report.repeats == ()


@pytest.mark.slow
def test_fault_without_wrong_output_is_found_by_the_sanitizer(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.jobs.confirmation.promising", lambda *_: True)  # noise does not prevent sanitizers
    job = Confirm(challenger=config("undefined"), incumbent=None, seed=5)
    work = workshop.work()
    report = workshop.evaluator.perform(work, job, workshop.evaluator.prepare(work, job))
    assert all(case.passed for case in report.cases), "undefined behaviour changes no result"
    finding = report.sanitizers[0].findings[0]  # cases are examined in parallel, so reports of other cases may follow
    assert "shift exponent" in finding
    assert "kernel.c" in finding


@pytest.mark.slow
@pytest.mark.parametrize(
    ("challenger", "incumbent", "failed", "kind"),
    one_in(
        2,
        [
            ("nan", "none", "challenger", WrongAnswer),
            ("syntax", "none", "challenger", CompileFailed),
            ("none", "crash", "incumbent", Crashed),
            ("none", "render", "incumbent", InvalidConfig),
        ],
    ),
)
def test_failed_confirmation_names_the_failed_kernel_and_its_failure(
    workshop: Workshop, challenger: str, incumbent: str, failed: str, kind: type
) -> None:
    job = Confirm(challenger=config(challenger), incumbent=config(incumbent), seed=5)
    work = workshop.work()
    report = workshop.evaluator.perform(work, job, workshop.evaluator.prepare(work, job))
    assert (report.failed, type(report.failure)) == (failed, kind)
    assert report.challenger is None


@pytest.mark.slow
def test_confirmation_without_an_incumbent_times_the_challenger_twice(workshop: Workshop) -> None:
    job = Confirm(challenger=config(), incumbent=None, seed=5)
    work = workshop.work()
    report = workshop.evaluator.perform(work, job, workshop.evaluator.prepare(work, job))
    assert report.incumbent is None
    assert report.challenger is not None
    assert report.challenger_again is not None
    assert isinstance(report, ConfirmReport)
    rules = {rule.name: rule for rule in judge(report, QUICK, 1, np.random.default_rng(0)).rules}
    assert rules["work"].passed, rules["work"].text
    assert rules["answers"].passed, rules["answers"].text


@pytest.mark.slow
def test_kernel_that_skips_work_if_its_outputs_contain_the_result_is_not_promoted(workshop: Workshop) -> None:
    """The kernel gives correct answers, and is several times as fast in a timed loop as a kernel that does all work.

    The size of the caches decides which check detects the kernel first: calls on separate buffer sets, calls after a
    change of inputs, or the rule `work`.
    """
    problem = faulty().family.problem("N=65536", "cpu")
    work = workshop.work(problem=problem, objective=Objective(cache="cold"))
    job = Confirm(challenger=config("lazy"), incumbent=None, seed=5)
    report = workshop.evaluator.perform(work, job, workshop.evaluator.prepare(work, job))
    if report.failure is not None:
        assert isinstance(report.failure, WrongAnswer)
        shown = "if each call has its own (inputs and )?outputs|after its inputs had changed|on new inputs"
        assert re.search(shown, report.failure.reason)
        return
    assert isinstance(report, ConfirmReport)
    verdict = judge(report, QUICK, 1, np.random.default_rng(0))
    assert not verdict.promote
    assert "does less work if its outputs already hold the expected result" in verdict.summary
    (rule,) = (rule for rule in verdict.rules if rule.name == "work")
    assert rule.figure > 1.5 > rule.threshold


@pytest.mark.slow
def test_kernel_that_skips_repeated_calls_fails_its_confirmation(workshop: Workshop) -> None:
    work = workshop.work(problem=faulty().family.problem("N=65536", "cpu"))
    job = Confirm(challenger=config("lazy"), incumbent=None, seed=5)
    for _ in range(5):  # on a busy machine, the samples may be invalid
        report = workshop.evaluator.perform(work, job, workshop.evaluator.prepare(work, job))
        if not isinstance(report.failure, InvalidMeasurement):
            break
    assert isinstance(report.failure, WrongAnswer)
    assert re.search(
        "if each call has its own (inputs and )?outputs|after its inputs had changed|on new inputs",
        report.failure.reason,
    )


@pytest.mark.long  # several confirmations are needed until a wrong call first occurs in the timed rounds
def test_occasionally_wrong_kernel_is_not_promoted(workshop: Workshop) -> None:
    """The kernel is wrong once in 97 calls, but never during verification."""
    work = workshop.work()
    for seed in range(5, 25):
        job = Confirm(challenger=config("rare"), incumbent=None, seed=seed)
        report = workshop.evaluator.perform(work, job, workshop.evaluator.prepare(work, job))
        if report.failure is None:
            break
        assert isinstance(report.failure, WrongAnswer)
        assert "after its inputs had changed" in report.failure.reason
    assert report.answers is not None
    assert report.answers.wrong == pytest.approx(report.answers.judged / 97, rel=0.3)
    assert isinstance(report, ConfirmReport)
    verdict = judge(report, QUICK, 1, np.random.default_rng(0))
    assert not verdict.promote
    counted = f"Not promoted. {report.answers.wrong:,} of {report.answers.judged:,} checked timed calls gave"
    assert verdict.summary.startswith(f"{counted} a wrong answer, first verified call ")
    assert "`y` differs from the reference" in verdict.summary
    job = Confirm(challenger=config(unroll=2), incumbent=config("late"), seed=5)
    report = workshop.evaluator.perform(work, job, workshop.evaluator.prepare(work, job))
    assert (report.failed, type(report.failure)) == ("incumbent", WrongAnswer)


@pytest.mark.slow
def test_ablation_times_each_change_even_if_one_change_fails(workshop: Workshop) -> None:
    """One change gives wrong answers after verification, one does not compile, and one gives the champion's binary."""
    changed = (config("late"), config(unroll=4), config("syntax"), config("nan"), config())
    job, work = Ablate(champion=config(), changed=changed, seed=3), workshop.work()
    report = workshop.evaluator.ablate(work, job, workshop.evaluator.prepare(work, job))
    late, good, syntax, nan, same = report.changes
    assert report.failure is None
    assert [each.failure and each.failure.kind for each in (late, syntax, nan)] == [
        "wrong_answer",
        "compile_failed",
        "wrong_answer",
    ]
    assert good.failure is None
    series = [good.champion, good.champion_again, good.changed]
    assert [len(each.samples_us) for each in series if each is not None] == [QUICK.confirm_samples] * 3
    assert (same.same_binary, same.changed) == (True, None)
    assert min(report.stages.verify_s, report.stages.measure_s) > 0


def test_ablation_fails_if_its_champion_is_wrong(workshop: Workshop) -> None:
    job, work = Ablate(champion=config("nan"), changed=(config(),), seed=3), workshop.work()
    report = workshop.evaluator.ablate(work, job, workshop.evaluator.prepare(work, job))
    assert (report.changes, report.failure and report.failure.kind) == ((), "wrong_answer")
