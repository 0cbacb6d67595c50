"""A runner that was started in advance executes the request for which it was prepared, or is ended."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from evo.messages.job import Baseline, Confirm, Evaluate, Job
from evo.trial.results import BaselineReport, EvaluateReport
from tests.integration.serving import wait_until
from tests.integration.workbench import cpu, faulty, terms
from tests.measured import measured
from workers.build.families import Assignment, Families
from workers.jobs.confirmation import compare
from workers.jobs.evaluation import Evaluator
from workers.runner.child import Ahead, Child
from workers.runner.plan import imports
from workers.runner.pool import Runners, TroubleError, ask
from workers.runner.protocol import Compare, Compared, Save, Saved
from workers.system.device_lock import GaveUp

BROKEN = """
def inputs(problem, distribution, rng): raise RuntimeError("no inputs today")
def reference(problem, inputs): return {}
yardstick = reference
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return measured(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def work(folder: Path, tmp_path: Path) -> Assignment:
    return Assignment(terms=terms(cpu(folder), faulty()), copy=Families(tmp_path / "families").add(faulty()))


@pytest.fixture
def runners(folder: Path) -> Iterator[Runners]:
    runners = Runners(folder)
    yield runners
    runners.close()


def test_prepared_runner_is_used_for_a_request_with_the_prepared_inputs(runners: Runners, work: Assignment) -> None:
    runners.prepare(work, 7)
    ahead = runners._ahead[0]._child
    taken = runners.fresh(work, 7)
    assert taken is ahead
    assert taken.usable
    taken.kill()


def test_prepared_runner_is_ended_if_the_next_request_has_different_inputs(runners: Runners, work: Assignment) -> None:
    runners.prepare(work, 7)
    ahead = runners._ahead[0]._child
    other = runners.fresh(work, 8)
    assert other is not ahead
    assert not ahead.usable
    other.kill()


def test_discarded_prepared_runner_is_ended(runners: Runners, work: Assignment) -> None:
    runners.prepare(work, 7)
    ahead = runners._ahead[0]._child
    runners.discard()
    assert not ahead.usable


def test_interruption_ends_the_preparation_of_a_runner(runners: Runners, work: Assignment) -> None:
    runners.prepare(work, 7)
    runners.interrupt()
    with pytest.raises(GaveUp):
        runners.fresh(work, 7)


def test_reference_error_in_a_prepared_runner_is_reported(runners: Runners, work: Assignment) -> None:
    work.copy.reference.write_text(BROKEN)
    runners.prepare(work, 7)
    with pytest.raises(TroubleError, match="no inputs today"):
        runners.fresh(work, 7)


def test_confirmation_process_uses_the_runner_prepared_for_that_process(runners: Runners, work: Assignment) -> None:
    for process in (2, 3, 3):
        runners.prepare(work, 7, process=process)
    second, third = (each._child for each in runners._ahead)
    first = runners.fresh(work, 7, process=2)
    assert first is second
    other = runners.fresh(work, 7, process=3)
    assert other is third
    for child in (first, other):
        child.kill()


def test_runner_without_a_device_saves_the_inputs_of_a_case(runners: Runners, work: Assignment, tmp_path: Path) -> None:
    case = work.cases[0].case.name
    with runners.drawn(work, 7) as child:
        ask(child, Save(case=case, folder=str(tmp_path)), Saved, stage="verify", limit_s=30.0)
    assert not child.usable
    sizes = {each.name: each.stat().st_size for each in tmp_path.glob("*.bin")}
    declared = work.copy.family.operands(work.terms.problem)
    assert sizes.keys() == {f"{each.name}.bin" for each in declared if each.role == "input"}
    assert all(sizes.values())


def test_runner_preloads_the_modules_that_baselines_import(runners: Runners, work: Assignment) -> None:
    assert "no_such_library" not in imports(work, baselines=False)
    modules = imports(work, baselines=True)
    assert {"numpy", "no_such_library"} <= {*modules}
    child = runners.fresh(work, 7, modules=modules)
    assert child.usable
    child.kill()


def test_standby_runner_is_used_first(runners: Runners, work: Assignment) -> None:
    runners.stand_by(("colorsys",))
    waiting = runners._spare
    assert waiting is not None
    first = runners.fresh(work, 7)
    assert first is waiting._child
    second = runners.fresh(work, 7)
    assert second is not first
    for child in (first, second):
        assert child.usable
        child.kill()


def test_standby_runner_with_a_different_thread_count_is_ended(runners: Runners, work: Assignment) -> None:
    runners.stand_by(())
    waiting = runners._spare
    assert waiting is not None
    objective = replace(work.terms.objective, threads=2)
    child = runners.fresh(replace(work, terms=replace(work.terms, objective=objective)), 7)
    assert child is not waiting._child
    assert not waiting._child.usable
    child.kill()


def test_dead_standby_runner_is_replaced(runners: Runners, work: Assignment) -> None:
    runners.stand_by(())
    waiting = runners._spare
    assert waiting is not None
    waiting._child.interrupt()
    child = runners.fresh(work, 7)
    assert child.usable
    child.kill()


def test_closing_the_runners_ends_the_standby_runner(folder: Path) -> None:
    runners = Runners(folder)
    runners.stand_by(())
    waiting = runners._spare
    runners.close()
    assert waiting is not None
    assert not waiting._child.usable


@pytest.mark.slow
def test_standby_runner_starts_while_another_runner_opens(runners: Runners, work: Assignment, tmp_path: Path) -> None:
    first = runners.fresh(work, 7, another=True)
    runners.settle()
    waiting = runners._spare
    assert waiting is not None
    assert not waiting._thread.is_alive()  # the standby runner must not compute while the first runner measures
    runners.stand_by(())
    assert runners._spare is waiting
    with runners.drawn(work, 7) as child:
        assert child is waiting._child
    assert runners._spare is None
    first.kill()


@pytest.fixture(params=[True])
def evaluator(
    request: pytest.FixtureRequest, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Evaluator]:
    """Return an evaluator. Its parameter states whether the device measures while expected outputs are computed."""
    monkeypatch.setattr("workers.jobs.evaluation.overlaps", lambda kind: request.param)
    evaluator = Evaluator("cpu", folder, tmp_path / "place")
    yield evaluator
    evaluator.close()


@pytest.mark.parametrize("evaluator", [True, False], indirect=True)
def test_expected_outputs_are_computed_while_the_first_candidate_is_built(
    evaluator: Evaluator, work: Assignment
) -> None:
    config = work.copy.family.space(work.terms.problem, work.terms.device, work.terms.objective).default()
    job = Evaluate(number=0, config=config)
    built = evaluator.prepare(work, job)
    (ahead,) = evaluator._runners._ahead
    assert isinstance(evaluator.perform(work, job, built), EvaluateReport)
    assert list(evaluator._runners._kept.values()) == [ahead._child]
    evaluator.prepare(work, job)
    assert not evaluator._runners._ahead


@pytest.mark.parametrize("evaluator", [True, False], indirect=True)
def test_expected_outputs_are_computed_during_a_measurement_only_if_it_is_not_disturbed(
    evaluator: Evaluator, work: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = work.copy.family.space(work.terms.problem, work.terms.device, work.terms.objective).default()
    job = Evaluate(number=0, config=config)
    other = replace(work, terms=replace(work.terms, search_id=work.terms.search_id + 1))
    busy: list[bool] = []
    pool = ThreadPoolExecutor(2)

    def begin(each: Assignment, runners: int) -> None:
        """Prepare a job as the build threads of a worker do, until its runner is started."""
        preparation = pool.submit(evaluator.prepare, each, job)
        if evaluator._overlaps:
            wait_until(lambda: len(evaluator._runners._ahead) == runners)
        else:
            preparation.result()

    def baseline(_: Assignment) -> BaselineReport:
        busy.extend(ahead._thread.is_alive() for ahead in evaluator._runners._ahead)
        begin(other, 2)
        busy.append(len(evaluator._runners._ahead) > 1)
        return BaselineReport(timings={}, unavailable={})

    monkeypatch.setattr(evaluator, "baseline", baseline)
    started = threading.Event()
    prepare = Ahead._prepare

    def slow(ahead: Ahead) -> None:
        started.wait(60.0 if evaluator._overlaps else 1.0)  # without overlap, the measurement waits for this thread
        prepare(ahead)

    monkeypatch.setattr(Ahead, "_prepare", slow)
    begin(work, 1)
    evaluator.perform(work, Baseline(), {})
    started.set()
    pool.shutdown()
    assert busy == [evaluator._overlaps] * 2


@pytest.mark.parametrize("kind", ["evaluate", "confirm", "baseline"])
def test_job_is_ready_for_a_gpu_only_after_its_runner_could_have_used_the_gpu(
    evaluator: Evaluator, work: Assignment, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    config = work.copy.family.space(work.terms.problem, work.terms.device, work.terms.objective).default()
    jobs: dict[str, Job] = {
        "evaluate": Evaluate(number=0, config=config),
        "confirm": Confirm(challenger=config, incumbent=None, seed=5),
        "baseline": Baseline(),
    }
    job = jobs[kind]
    computing, prepare = threading.Event(), Ahead._prepare

    def slow(ahead: Ahead) -> None:
        computing.wait(60.0)
        prepare(ahead)

    monkeypatch.setattr(Ahead, "_prepare", slow)
    with ThreadPoolExecutor(2) as pool:
        preparations = [pool.submit(evaluator.prepare, work, job) for _ in range(2 if kind == "evaluate" else 1)]
        wait_until(lambda: evaluator._runners._ahead != [])
        with pytest.raises(TimeoutError):
            preparations[0].result(1.0)
        assert not any(each.done() for each in preparations)
        computing.set()
        assert all(each.result(60.0) is not None for each in preparations)
    (ahead,) = evaluator._runners._ahead
    assert ahead._ready


def test_baselines_are_timed_in_the_runner_that_was_started_in_advance(
    evaluator: Evaluator, work: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[Child] = []

    def compared(child: Child, request: Compare, work: Assignment) -> Compared:
        used.append(child)
        return compare(child, request, work)

    monkeypatch.setattr("workers.jobs.evaluation.compare", compared)
    built = evaluator.prepare(work, Baseline())
    (ahead,) = evaluator._runners._ahead
    report = evaluator.perform(work, Baseline(), built)
    assert isinstance(report, BaselineReport) and report.timings
    assert used == [ahead._child]


def test_expected_outputs_of_a_confirmation_are_computed_while_configs_are_built(
    evaluator: Evaluator, work: Assignment
) -> None:
    config = work.copy.family.space(work.terms.problem, work.terms.device, work.terms.objective).default()
    job = Confirm(challenger=config, incumbent=None, seed=5)
    evaluator.prepare(work, job)
    (ahead,) = evaluator._runners._ahead
    child = evaluator._runners.fresh(work, 5, process=1, modules=imports(work, baselines=True))
    assert child is ahead._child
    child.kill()


@pytest.mark.parametrize("job", [Baseline(), "confirm"])
def test_runner_of_a_cpu_job_is_started_in_advance_and_idle_when_the_job_begins(
    folder: Path, tmp_path: Path, work: Assignment, monkeypatch: pytest.MonkeyPatch, job: Baseline | str
) -> None:
    evaluator = Evaluator("cpu", folder, tmp_path / "place")
    config = work.copy.family.space(work.terms.problem, work.terms.device, work.terms.objective).default()
    chosen = Confirm(challenger=config, incumbent=None, seed=5) if isinstance(job, str) else job
    built = evaluator.prepare(work, chosen)
    waiting, idle = evaluator._runners._spare, list[bool]()
    assert waiting is not None
    assert not evaluator._runners._ahead  # expected outputs are computed when the job begins

    def performed(*_: object) -> BaselineReport:
        idle.append(not waiting._thread.is_alive() and waiting._ready)
        evaluator._runners.discard()
        return BaselineReport(timings={}, unavailable={})

    monkeypatch.setattr(evaluator, "baseline", performed)
    monkeypatch.setattr(evaluator, "confirm", performed)
    evaluator.perform(work, chosen, built)
    assert idle == [True]
    evaluator.close()


def test_no_runner_starts_during_a_cpu_measurement(
    folder: Path, tmp_path: Path, work: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluator = Evaluator("cpu", folder, tmp_path / "place")
    started: list[bool] = []

    def performed(_: Assignment) -> BaselineReport:
        evaluator.prepare(work, Baseline())
        started.append(evaluator._runners._spare is not None)
        return BaselineReport(timings={}, unavailable={})

    monkeypatch.setattr(evaluator, "baseline", performed)
    evaluator.perform(work, Baseline(), {})
    assert started == [False]
    evaluator.close()
