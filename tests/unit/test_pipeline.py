"""The pipeline of a slot decides how many jobs are claimed, and in which order jobs are measured."""

import threading
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from typing import Any, cast

import pytest

from evo.device import Device, DeviceKind
from evo.messages.job import Baseline, Evaluate, FamilyRef, Job, Lease, SearchTerms
from evo.promotion.policy import Policy
from evo.trial.objective import Objective
from evo.trial.results import Report
from workers.build.families import Assignment, Copy
from workers.daemon.idle_clock import IdleClock
from workers.daemon.pipeline import Pipeline
from workers.jobs.evaluation import Preparation


class Builds:
    """A fake performer whose builds last until the test releases them."""

    def __init__(self) -> None:
        self.gates: dict[int, threading.Event] = {}
        self.baselines = 0

    def prepare(self, work: Assignment, job: Job) -> Preparation:
        if not isinstance(job, Evaluate):
            self.baselines += 1
            return {}
        assert self.gates[job.number].wait(60)
        return {}

    def perform(self, work: Assignment, job: Job, built: Preparation) -> Report:
        raise NotImplementedError

    def prove(self, work: Assignment) -> None: ...

    def begin(self) -> None: ...

    def interrupt(self) -> None: ...

    def close(self) -> None: ...


def lease(number: int, job: Job | None = None, *, search: int = 1) -> Lease:
    terms = SearchTerms(
        search_id=search,
        family=FamilyRef(name="f", digest="d"),
        problem={},
        device=Device(kind="cpu", model="m", architecture="a", uuid="u"),
        objective=Objective(),
        policy=Policy(),
        seed=0,
    )
    job = job or Evaluate(number=number, config={})
    return Lease(attempt_id=number, token="t", lease_s=60, terms=terms, job=job)


NO_COPY = cast(Copy, None)
"""Placeholder for the copy of a family. The pipeline does not use the copy."""


@contextmanager
def pipeline(kind: DeviceKind, cores: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Pipeline, Builds]]:
    monkeypatch.setattr("workers.daemon.pipeline.core_numbers", lambda: list(range(cores)))
    monkeypatch.setattr("workers.system.machine.leave_last_core", lambda: None)
    builds = Builds()
    line = Pipeline(kind, builds, IdleClock())
    yield line, builds
    for gate in builds.gates.values():
        gate.set()
    line.close()


def add(line: Pipeline, builds: Builds, *numbers: int) -> None:
    builds.gates.update((number, threading.Event()) for number in numbers)
    line.add([(each, Assignment(terms=each.terms, copy=NO_COPY)) for each in map(lease, numbers)])


def number_of(line: Pipeline) -> int:
    pending = line.next()
    assert pending is not None
    return pending.lease.attempt_id


def test_pipeline_on_few_cores_builds_a_batch_before_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    with pipeline("cpu", 2, monkeypatch) as (line, builds):
        assert line.room == 4
        add(line, builds, 1, 2)
        assert line.room == 0  # no other build may start before the batch is measured
        builds.gates[2].set()
        taken: list[int] = []
        taking = threading.Thread(target=lambda: taken.append(number_of(line)))
        taking.start()
        taking.join(0.1)
        assert not taken
        builds.gates[1].set()
        taking.join(60)
        assert [*taken, number_of(line)] == [1, 2]
        assert line.room == 4


def test_pipeline_on_many_cores_measures_in_order_of_completed_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    with pipeline("cpu", 4, monkeypatch) as (line, builds):
        add(line, builds, 1, 2, 3)
        builds.gates[2].set()
        assert number_of(line) == 2
        builds.gates[1].set()
        builds.gates[3].set()
        assert {number_of(line), number_of(line)} == {1, 3}


def add_baselines(line: Pipeline, number: int, *, search: int = 1) -> None:
    job = lease(number, Baseline(), search=search)
    line.add([(job, Assignment(terms=job.terms, copy=NO_COPY))])


@pytest.mark.parametrize("cores", [2, 16])
def test_first_candidate_is_measured_before_the_baselines(monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    with pipeline("cpu", cores, monkeypatch) as (line, builds):
        add_baselines(line, 9)
        add(line, builds, 1, 2)
        builds.gates[2].set()
        if cores == 2:
            builds.gates[1].set()  # all jobs of a batch are built before the first is performed
        assert number_of(line) == (1 if cores == 2 else 2)
        assert number_of(line) == 9
        builds.gates[1].set()
        assert number_of(line) == (2 if cores == 2 else 1)


@pytest.mark.parametrize("cores", [2, 16])
def test_first_candidate_on_few_cores_does_not_wait_for_the_build_of_baselines(
    monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    with pipeline("cpu", cores, monkeypatch) as (line, builds):
        builds.gates[1] = threading.Event()
        jobs = [lease(9, Baseline()), lease(1)]
        line.add([(each, Assignment(terms=each.terms, copy=NO_COPY)) for each in jobs])
        builds.gates[1].set()
        assert number_of(line) == 1
        if cores == 2:
            assert builds.baselines == 0  # the candidate is measured while no compiler runs
        assert number_of(line) == 9
        assert builds.baselines == 1


def test_baselines_do_not_wait_for_candidates_of_other_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    with pipeline("cuda", 16, monkeypatch) as (line, builds):
        add(line, builds, 1)
        add_baselines(line, 9, search=2)
        assert number_of(line) == 9


def test_pipeline_claims_jobs_only_when_an_eighth_of_its_capacity_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    with pipeline("cuda", 16, monkeypatch) as (line, builds):
        add(line, builds, *range(14))
        assert line.room == 2
        add(line, builds, 14)
        assert line.room == 0


def test_pipeline_contains_only_jobs_needed_to_keep_the_device_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    with pipeline("cuda", 16, monkeypatch) as (line, builds):
        add(line, builds, *range(16))
        for gate in builds.gates.values():
            gate.set()
        wait([pending.building for pending in line._queue])
        for _ in range(10):  # more than six built jobs are available before each call
            line.next()
        assert line.room == (16 - 10) - 6
        for _ in range(6):
            line.next()
        add(line, builds, 16)

        def waits(*arguments: Any, **options: Any) -> Any:
            builds.gates[16].set()
            return wait(*arguments, **options)

        monkeypatch.setattr("workers.daemon.pipeline.wait", waits)
        line.next()  # the job is not built before the device waits for it
        assert line.room == (16 - 10) + 2


def test_pipeline_on_a_large_machine_claims_at_most_64_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    with pipeline("cuda", 128, monkeypatch) as (line, _):
        assert line.room == 64


def test_pipeline_of_a_recorded_space_contains_one_job(monkeypatch: pytest.MonkeyPatch) -> None:
    with pipeline("replay", 16, monkeypatch) as (line, builds):
        assert line.room == 1
        add(line, builds, 1)
        assert line.room == 0


def test_emptying_the_pipeline_of_a_slot_returns_its_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    with pipeline("cpu", 2, monkeypatch) as (line, builds):
        add(line, builds, 1, 2)
        assert [pending.lease.attempt_id for pending in line.empty()] == [1, 2]
        assert not line
