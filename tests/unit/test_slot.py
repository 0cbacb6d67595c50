"""After any failure, a slot reports, returns or drops every lease exactly once."""

import errno
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from evo.client import Client, Leases, ServiceError, ServiceUnreachable, TooLarge
from evo.errors import Conflict, EvoError, NotFound
from evo.messages.job import Answer, Baseline, Confirm, Delivery, Evaluate, FamilyRef, Job, Lease
from evo.trial.outcome import CompileFailed, Crashed, LaunchFailed, Measured, Outcome, TimedOut
from evo.trial.results import BaselineReport, ConfirmReport, EvaluateReport, Report
from evo.trial.timing import Timing
from tests.captured_logs import captured_logs
from tests.unit.test_pipeline import lease as any_lease
from workers.build.build import Built
from workers.build.families import Assignment, Copy, Families, FamilyMismatch
from workers.daemon.claims import POLL_S, Held, WorkerContext
from workers.daemon.slot import FEW_JOBS, MAX_BREAKS, Slot
from workers.delivery.outbox import Outbox
from workers.jobs.evaluation import Preparation
from workers.runner.pool import UnfitError
from workers.system.exhaustion import MachineExhausted

GOOD = EvaluateReport(outcome=Measured(timing=Timing(samples_us=(5.0,))), binary_digest="same")
CRASHED = EvaluateReport(outcome=Crashed(stage="verify", reason="killed by SIGKILL"))


@dataclass
class Service:
    """A fake client that returns prepared leases and then stops the worker."""

    leases: list[Lease]
    stopping: threading.Event
    returned: list[Lease] = field(default_factory=list)
    reports: dict[int, Report] = field(default_factory=dict)
    released: list[int] = field(default_factory=list)
    unfit: list[str] = field(default_factory=list)
    duplicates: dict[str, EvaluateReport] = field(default_factory=dict)
    answers: list[EvoError] = field(default_factory=list)
    registered: int = 0

    def lease(
        self,
        worker_id: str,
        device_uuid: str,
        *,
        count: int,
        wait_s: float,
        holding: Sequence[int],
        unable: Sequence[int],
        incarnation: str,
    ) -> Leases:
        if self.answers:
            raise self.answers.pop(0)
        able = [lease for lease in self.leases if lease.terms.search_id not in unable]
        given = able[:count]
        self.leases = [lease for lease in self.leases if lease not in given]
        if not given and wait_s > 0:
            self.stopping.set()
        return Leases(leases=tuple(given))

    def report_many(self, deliveries: Sequence[Delivery], *, contents: Mapping[str, bytes]) -> tuple[Answer, ...]:
        for each in deliveries:
            assert each.attempt_id not in self.reports
            self.reports[each.attempt_id] = each.report
        return tuple(Answer(attempt_id=each.attempt_id, status="accepted") for each in deliveries)

    def release(self, attempt_id: int, token: str, *, reason: str, unfit: bool = False) -> None:
        """Record the released lease, and queue its job again as the real service does."""
        self.released.append(attempt_id)
        self.unfit += [reason] if unfit else []
        self.leases += [lease for lease in self.returned if lease.attempt_id == attempt_id]

    def find_duplicate(self, search_id: int, digest: str) -> EvaluateReport | None:
        return self.duplicates.get(digest)

    def put_artefact(self, digest: str, content: bytes) -> None: ...


class Performer:
    """A fake performer that calls a function of the test for each job."""

    def __init__(self, act: Callable[[Job], Report], digest: str | None, folder: Path) -> None:
        self._act = act
        self._digest = digest
        self._folder = folder
        self.performed = 0
        self.interrupted = 0
        self.closed = False
        self.refusal: Outcome | None = None
        self.proofs = 0
        self.unfit: list[str] = []

    def prepare(self, work: Assignment, job: Job) -> Preparation:
        return {"candidate": Built(folder=self._folder / "none", digest=self._digest, refusal=self.refusal)}

    def perform(self, work: Assignment, job: Job, built: Preparation) -> Report:
        self.performed += 1
        return self._act(job)

    def prove(self, work: Assignment) -> None:
        self.proofs += 1
        if self.unfit:
            raise UnfitError(self.unfit.pop(0))

    def begin(self) -> None: ...

    def interrupt(self) -> None:
        self.interrupted += 1

    def close(self) -> None:
        self.closed = True


class FamilyStore:
    """A fake store of families. If `error` is given, every access raises the error."""

    def __init__(self, error: EvoError | None = None) -> None:
        self._error = error

    def get(self, ref: FamilyRef) -> Copy | None:
        if self._error is not None:
            raise self._error
        return None


class SlotSetup:
    """A slot with a fake service, a fake performer and fake families."""

    def __init__(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        *leases: Lease,
        act: Callable[[Job], Report] = lambda job: GOOD,
        digest: str | None = None,
        families: FamilyStore | None = None,
    ) -> None:
        for pause in ("PAUSE_S", "MEND_S"):
            monkeypatch.setattr(f"workers.daemon.slot.{pause}", 0.0)
        self.stopping = threading.Event()
        self.service = Service(leases=list(leases), stopping=self.stopping)
        self.performer = Performer(act, digest, folder)
        self.held, client = Held(), cast(Client, self.service)
        self.outbox = Outbox(client, folder / "outbox")
        context = WorkerContext(
            client=client,
            worker_id="w",
            register=self._register,
            families=cast(Families, families or FamilyStore()),
            outbox=self.outbox,
            held=self.held,
            stopping=self.stopping,
        )
        self.slot = Slot(any_lease(0).terms.device, self.performer, context)

    def play(self) -> "SlotSetup":
        """Run until the slot ends, deliver its results as the worker does, and return this object."""
        self.slot.run()
        assert self.outbox.flush()
        return self

    def _register(self) -> None:
        self.service.registered += 1


def evaluation(number: int) -> Lease:
    return any_lease(number)


def test_slot_reports_every_lease_once_and_has_no_lease_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = SlotSetup(tmp_path, monkeypatch, *map(evaluation, range(7))).play()
    assert sorted(scene.service.reports) == list(range(7))
    assert scene.service.released == []
    assert scene.held.leases == []
    assert scene.performer.closed


def test_wait_time_of_a_job_is_at_most_its_total_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stages = SlotSetup(tmp_path, monkeypatch, evaluation(1)).play().service.reports[1].stages
    assert 0 <= stages.wait_s <= stages.total_s


def test_slot_measures_equal_binaries_only_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = SlotSetup(tmp_path, monkeypatch, *map(evaluation, range(5)), digest="same").play()
    assert scene.performer.performed == 1
    assert [report.outcome for report in scene.service.reports.values()] == [GOOD.outcome] * 5


@pytest.mark.parametrize("change", [{"problem": {"N": 99}}, {"seed": 5}, {"family": FamilyRef(name="g", digest="9")}])
def test_slot_treats_a_search_with_a_known_id_and_different_terms_as_a_new_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, object]
) -> None:
    """A restored or new database assigns the ids again, to other searches, while the worker runs."""
    first = evaluation(1)
    again = replace(first, token="another", terms=replace(first.terms, **change))  # type: ignore[arg-type]
    scene = SlotSetup(tmp_path, monkeypatch, first, again, digest="same")
    prepared: list[object] = []
    prepare = scene.performer.prepare
    scene.performer.prepare = lambda work, job: prepared.append(work.terms) or prepare(work, job)  # type: ignore[method-assign]
    scene.service.report_many = lambda deliveries, *, contents: tuple(  # type: ignore[method-assign]
        Answer(attempt_id=each.attempt_id, status="accepted") for each in deliveries
    )
    scene.play()
    assert prepared == [first.terms, again.terms]
    assert scene.performer.performed == 2, "the report on a binary of the earlier search was reused"


def test_revoking_a_lease_keeps_a_later_lease_with_the_same_id() -> None:
    first = evaluation(1)
    again = replace(first, token="another")
    held = Held()
    held.take([first])
    assert held.revoke([1, 2]) == {1}
    held.take([again])
    assert (held.revoked(first), held.revoked(again)) == (True, False)
    held.drop(first)
    assert held.leases == [again]


def test_binary_measured_by_a_second_worker_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = SlotSetup(tmp_path, monkeypatch, evaluation(1), digest="same")
    scene.service.duplicates["same"] = GOOD
    scene.play()
    assert scene.performer.performed == 0
    assert (
        scene.service.reports[1].environment["binary"] == "the same as in an earlier trial, whose measurement is used"
    )


@pytest.mark.parametrize(("own", "activity"), [(True, "working"), (False, "waiting")])
def test_slot_counts_as_working_if_its_own_runner_holds_the_device_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, own: bool, activity: str
) -> None:
    monkeypatch.setattr("workers.daemon.slot.descends_from_here", lambda pid: own and pid == 7)
    slot = SlotSetup(tmp_path, monkeypatch).slot
    slot._busy(evaluation(3), 7)
    assert slot.report.activity == activity
    assert slot.report.attempt_id == (None if own else 3)
    assert slot.report.detail == ("running reference.py" if own else "process 7 holds the device")


def test_revoked_job_is_interrupted_and_neither_reported_nor_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def revoked_meanwhile(job: Job) -> Report:
        scene.slot.revoke(scene.held.revoke([1]))
        return CRASHED

    scene = SlotSetup(tmp_path, monkeypatch, evaluation(1), act=revoked_meanwhile)
    scene.play()
    assert scene.performer.interrupted == 1
    assert (scene.service.reports, scene.service.released) == ({}, [])


def test_revoking_a_job_that_is_not_running_interrupts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other_revoked(job: Job) -> Report:
        scene.slot.revoke(scene.held.revoke([99]))
        return GOOD

    scene = SlotSetup(tmp_path, monkeypatch, evaluation(1), act=other_revoked)
    scene.play()
    assert scene.performer.interrupted == 0
    assert list(scene.service.reports) == [1]


def test_job_revoked_before_its_start_is_not_performed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def second_revoked(job: Job) -> Report:
        scene.held.revoke([2])
        return GOOD

    scene = SlotSetup(tmp_path, monkeypatch, evaluation(1), evaluation(2), act=second_revoked)
    scene.play()
    assert scene.performer.performed == 1
    assert list(scene.service.reports) == [1]


def test_stopping_slot_reports_no_crash_and_keeps_no_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped_meanwhile(job: Job) -> Report:
        scene.stopping.set()
        return CRASHED

    scene = SlotSetup(tmp_path, monkeypatch, *map(evaluation, range(3)), act=stopped_meanwhile)
    scene.play()
    assert (scene.service.reports, scene.service.released) == ({}, [])  # the worker returns leases when it signs off
    assert scene.held.leases == []


def test_slot_starts_no_job_after_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = SlotSetup(tmp_path, monkeypatch, evaluation(1), digest="same")
    monkeypatch.setattr(scene.service, "find_duplicate", lambda *_: scene.stopping.set())
    monkeypatch.setattr(
        "workers.daemon.slot.exclusive", lambda *_, **__: nullcontext(0.0)
    )  # the device is free immediately
    scene.play()
    assert (scene.performer.performed, scene.service.reports) == (0, {})


def test_stopped_slot_does_not_wait_for_compilers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene, building, ended = SlotSetup(tmp_path, monkeypatch, evaluation(1)), threading.Event(), threading.Event()

    def slowly(*_: object) -> Preparation:
        building.set()
        assert ended.wait(60)
        return {}

    monkeypatch.setattr(scene.performer, "prepare", slowly)
    slot = threading.Thread(target=scene.slot.run)
    slot.start()
    assert building.wait(60)
    scene.stopping.set()
    slot.join(60)
    assert not slot.is_alive()
    ended.set()


def test_worker_that_signed_off_does_not_register_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = SlotSetup(tmp_path, monkeypatch)

    def gone(*_: object, **__: object) -> Leases:
        scene.stopping.set()
        raise NotFound("the worker has left")

    monkeypatch.setattr(scene.service, "lease", gone)
    assert scene.play().service.registered == 0


def test_result_finished_while_the_slot_stops_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped_meanwhile(job: Job) -> Report:
        scene.stopping.set()
        return GOOD

    scene = SlotSetup(tmp_path, monkeypatch, evaluation(1), act=stopped_meanwhile)
    scene.play()
    assert list(scene.service.reports) == [1]


@pytest.mark.parametrize(
    ("job", "verdict"),
    [
        (Evaluate(number=1, config={}), EvaluateReport(outcome=LaunchFailed(reason="RuntimeError: a bug"))),
        (Baseline(), BaselineReport(timings={}, unavailable={"all": "RuntimeError: a bug"})),
        (
            Confirm(challenger={}, incumbent=None, seed=1),
            ConfirmReport(failure=LaunchFailed(reason="RuntimeError: a bug"), failed="challenger"),
        ),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_repeatedly_failing_job_is_released_and_finally_reported_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: Job, verdict: Report
) -> None:
    def bug(job: Job) -> Report:
        raise RuntimeError("a bug")

    lease = Lease(**{**vars(evaluation(1)), "job": job})
    scene = SlotSetup(tmp_path, monkeypatch, lease, act=bug)
    scene.service.returned = [lease]
    with captured_logs() as logs:
        scene.play()
    given_back, reported = "a job failed, and is given back", "a job failed repeatedly, and is reported as failed"
    ended = [each["event"] for each in logs if each["event"] in (given_back, reported)]
    assert ended == [given_back] * (MAX_BREAKS - 1) + [reported]
    assert len(scene.service.released) == MAX_BREAKS - 1
    assert scene.service.reports == {1: verdict}
    assert scene.held.leases == []


FULL = (MachineExhausted("no room"), OSError(errno.ENOSPC, "No space left on device"))


@pytest.mark.parametrize("error", FULL, ids=["MachineExhausted", "OSError"])
def test_exhausted_machine_releases_its_jobs_without_reporting_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    tries: list[Job] = []

    def full(job: Job) -> Report:
        tries.append(job)
        if len(tries) <= 2 * MAX_BREAKS:
            raise error
        return GOOD

    lease = evaluation(7)
    scene = SlotSetup(tmp_path, monkeypatch, lease, act=full)
    scene.service.returned = [lease]
    activities = list[str]()
    monkeypatch.setattr(scene.slot._mending, "wait", lambda: activities.append(scene.slot.report.activity))
    scene.play()
    assert list(scene.service.reports) == [7]
    assert len(scene.service.released) == 2 * MAX_BREAKS
    assert set(activities) == {"exhausted"}


def test_jobs_of_a_family_with_a_different_digest_are_released_as_unfit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = evaluation(1)
    scene = SlotSetup(tmp_path, monkeypatch, lease, families=FamilyStore(FamilyMismatch("another digest")))
    scene.service.returned = [lease]
    scene.play()
    assert (scene.service.released, scene.service.reports) == ([1], {})
    assert scene.service.unfit == ["another digest"], "the search shows the reason"


@pytest.mark.parametrize("error", [ServiceUnreachable("away"), ServiceError("answered 500"), TooLarge("413")])
def test_failed_download_of_a_family_releases_the_job_and_does_not_block_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: EvoError
) -> None:
    lease = evaluation(1)
    scene = SlotSetup(tmp_path, monkeypatch, lease, families=FamilyStore(error))
    scene.service.returned = [lease]
    scene.play()
    assert (scene.service.released, scene.service.reports) == ([1], {})
    assert scene.service.unfit == [], "the search has no obstacle"


def test_slot_retries_an_unavailable_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = SlotSetup(tmp_path, monkeypatch, evaluation(1))
    scene.service.answers = [ServiceUnreachable("away"), ServiceUnreachable("away")]
    assert list(scene.play().service.reports) == [1]


def test_worker_registers_again_if_the_service_does_not_know_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = SlotSetup(tmp_path, monkeypatch, evaluation(1))
    scene.service.answers = [NotFound("no such worker")]
    scene.play()
    assert scene.service.registered == 1
    assert list(scene.service.reports) == [1]


def test_conflict_from_the_service_closes_the_performer_and_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = SlotSetup(tmp_path, monkeypatch, evaluation(1))
    scene.service.answers = [Conflict("go away")]
    with pytest.raises(Conflict):
        scene.play()
    assert scene.performer.closed


@pytest.mark.parametrize(
    "outcome", [CRASHED.outcome, TimedOut(stage="measure", limit_s=1.0)], ids=lambda each: each.kind
)
def test_crash_is_reported_only_after_a_known_good_kernel_succeeded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: Outcome
) -> None:
    crashed = EvaluateReport(outcome=outcome)
    scene = SlotSetup(tmp_path, monkeypatch, *map(evaluation, range(5)), act=lambda job: crashed).play()
    assert scene.performer.proofs == 5
    assert {report.outcome for report in scene.service.reports.values()} == {outcome}
    assert scene.slot.report.fault is None  # crashes of candidates are not faults of the device


def test_crashed_job_is_released_if_the_known_good_kernel_also_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = SlotSetup(tmp_path, monkeypatch, evaluation(1), act=lambda job: CRASHED)
    scene.service.returned = [evaluation(1)]
    scene.performer.unfit = ["the GPU has fallen off the bus"]
    scene.play()
    assert scene.service.released == [1]
    assert (
        scene.service.reports[1].outcome == CRASHED.outcome
    )  # the second attempt crashed as well, with a healthy device


def test_three_faults_on_different_candidates_quarantine_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = SlotSetup(tmp_path, monkeypatch, *map(evaluation, range(3)), act=lambda job: CRASHED)
    scene.performer.unfit = ["Xid 62", "Xid 63", "Xid 79"]
    for _ in range(3):
        scene.slot._step()
    said = scene.slot.report
    assert said.fault == "a known-good kernel failed after 3 different candidates; last failure: Xid 79"
    scene.slot._step()
    assert (scene.slot.report.activity, sorted(scene.service.released)) == ("quarantined", [0, 1, 2])
    scene.slot.acknowledge(scene.slot.report, set_aside=True)
    scene.slot._step()
    assert scene.performer.performed == 3
    scene.slot.acknowledge(scene.slot.report, set_aside=False)
    scene.service.leases = [evaluation(9)]
    assert scene.slot.report.fault is None
    scene.play()
    assert list(scene.service.reports) == [9]


def test_device_fault_after_a_report_is_kept_when_the_report_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = SlotSetup(tmp_path, monkeypatch).slot
    before = slot.report
    slot._fault = "Xid 79"
    slot.acknowledge(before, set_aside=False)
    assert slot.report.fault == "Xid 79"


def test_job_that_failed_to_compile_does_not_wait_for_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = EvaluateReport(outcome=CompileFailed(log="no"))
    scene = SlotSetup(tmp_path, monkeypatch, evaluation(1), act=lambda job: refused)
    scene.performer.refusal = refused.outcome
    monkeypatch.setattr("workers.daemon.slot.exclusive", lambda *_, **__: pytest.fail("the slot used the device"))
    assert list(scene.play().service.reports) == [1]


def test_slot_reports_the_process_that_uses_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str | None] = []

    @contextmanager
    def held_by_another(*_: object, on_busy: Callable[[int | None], None], **__: object) -> Iterator[float]:
        on_busy(12)
        said.append(f"{scene.slot.report.activity}: {scene.slot.report.detail}")
        assert scene.slot.report.attempt_id == 1
        yield 0.5

    def working(job: Job) -> Report:
        said.append(scene.slot.report.activity)
        return GOOD

    scene = SlotSetup(tmp_path, monkeypatch, evaluation(1), act=working)
    monkeypatch.setattr("workers.daemon.slot.exclusive", held_by_another)
    scene.play()
    assert said == ["waiting: process 12 holds the device", "working"]


def test_slot_keeps_measuring_while_results_are_delivered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first result is accepted only after the last job has been performed."""
    monkeypatch.setattr("workers.daemon.pipeline.core_numbers", lambda: list(range(8)))
    monkeypatch.setattr("workers.system.machine.leave_last_core", lambda: None)
    last = threading.Event()

    def perform(job: Job) -> Report:
        if scene.performer.performed == 5:
            last.set()
        return GOOD

    scene = SlotSetup(tmp_path, monkeypatch, *map(evaluation, range(5)), act=perform)
    take = scene.service.report_many

    def slow(deliveries: Sequence[Delivery], *, contents: Mapping[str, bytes]) -> tuple[Answer, ...]:
        assert last.wait(60)
        return take(deliveries, contents=contents)

    monkeypatch.setattr(scene.service, "report_many", slow)
    scene.outbox.start()
    scene.play()
    scene.outbox.close()
    assert len(scene.service.reports) == 5


def test_slot_claims_its_next_jobs_while_it_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third request is answered only after the first jobs have been performed."""
    monkeypatch.setattr("workers.daemon.pipeline.core_numbers", lambda: list(range(8)))
    monkeypatch.setattr("workers.system.machine.leave_last_core", lambda: None)
    scene = SlotSetup(tmp_path, monkeypatch, *map(evaluation, range(9)))
    performed, asked = threading.Event(), []
    usual = scene.service.lease

    def perform(job: Job) -> Report:
        if scene.performer.performed == 2:
            performed.set()
        return GOOD

    def lease(*given: Any, **named: Any) -> Leases:
        asked.append(named["wait_s"])
        if len(asked) == 3:
            assert performed.wait(60)
        return usual(*given, **named | {"count": 3})

    scene.performer._act = perform
    monkeypatch.setattr(scene.service, "lease", lease)
    scene.play()
    assert sorted(scene.service.reports) == list(range(9))
    assert asked[1] == asked[2] == 0.0


def test_slot_with_few_cores_claims_its_next_jobs_while_it_executes_the_last_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.daemon.pipeline.core_numbers", lambda: [0, 1])
    scene, requested = SlotSetup(tmp_path, monkeypatch, *map(evaluation, range(6))), threading.Event()
    usual = scene.service.lease
    asked: list[float] = []

    def perform(job: Job) -> Report:
        if scene.performer.performed == 3:
            assert requested.wait(60)
        return GOOD

    def lease(*given: Any, **named: Any) -> Leases:
        asked.append(named["wait_s"])
        if len(asked) == 2:
            assert scene.performer.performed >= 2
            requested.set()
        return usual(*given, **named | {"count": 3})

    scene.performer._act = perform
    monkeypatch.setattr(scene.service, "lease", lease)
    scene.play()
    assert sorted(scene.service.reports) == list(range(6))
    assert asked == [POLL_S, 0.0, 0.0, POLL_S]


def test_slot_builds_new_jobs_while_it_waits_for_an_earlier_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The build of the second job ends only after the build of the third job has begun."""
    monkeypatch.setattr("workers.daemon.pipeline.core_numbers", lambda: list(range(8)))
    monkeypatch.setattr("workers.system.machine.leave_last_core", lambda: None)
    scene, third = SlotSetup(tmp_path, monkeypatch), threading.Event()
    begun: list[Job] = []
    given = iter([[evaluation(0), evaluation(1)], [], [evaluation(2)]])
    build = scene.performer.prepare

    def prepare(work: Assignment, job: Job) -> Preparation:
        begun.append(job)
        place = len(begun)
        if place == 2:
            assert third.wait(60)
        elif place == 3:
            third.set()
        return build(work, job)

    def lease(*_: object, wait_s: float, **__: object) -> Leases:
        leases = next(given, [])
        if not leases and wait_s > 0:
            scene.stopping.set()
        return Leases(leases=tuple(leases))

    monkeypatch.setattr(scene.performer, "prepare", prepare)
    monkeypatch.setattr(scene.service, "lease", lease)
    scene.play()
    assert sorted(scene.service.reports) == [0, 1, 2]
    assert not scene.service.released


def test_idle_slot_claims_few_jobs_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proposing many trials of a new search takes long, and the first candidate should not wait for all proposals."""
    monkeypatch.setattr("workers.daemon.pipeline.core_numbers", lambda: list(range(8)))
    monkeypatch.setattr("workers.system.machine.leave_last_core", lambda: None)
    scene = SlotSetup(tmp_path, monkeypatch)
    asked: list[tuple[int, float]] = []
    given = iter([[], [evaluation(0), evaluation(1)], [evaluation(2)]])

    def lease(*_: object, count: int, wait_s: float, **__: object) -> Leases:
        asked.append((count, wait_s))
        leases = next(given, [])
        if not leases and wait_s > 0 and len(asked) > 3:
            scene.stopping.set()
        return Leases(leases=tuple(leases))

    monkeypatch.setattr(scene.service, "lease", lease)
    scene.play()
    assert asked[:3] == [(FEW_JOBS, POLL_S), (FEW_JOBS, POLL_S), (8 - FEW_JOBS, 0.0)]
    assert sorted(scene.service.reports) == [0, 1, 2]


def test_slot_claims_no_jobs_while_results_cannot_be_delivered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = SlotSetup(tmp_path, monkeypatch, evaluation(1))
    scene.outbox.stuck = True
    scene.slot._step()
    assert len(scene.service.leases) == 1
