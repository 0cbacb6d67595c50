"""What a slot does with leases, whatever goes wrong: report, give back, or drop; never both, never neither."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from evo.client import Leases, ServiceUnreachable
from evo.errors import Conflict, EvoError, NotFound
from evo.job import (
    Baseline,
    BaselineReport,
    Confirm,
    ConfirmReport,
    Evaluate,
    EvaluateReport,
    FamilyRef,
    Job,
    Lease,
    Report,
)
from evo.outcome import Crashed, LaunchFailed, Measured
from evo.timing import Timing
from tests.unit.test_pipeline import lease as any_lease
from workers.build import Built
from workers.families import Assignment, Copy, FamilyMismatch
from workers.held import Held
from workers.ladder import Preparation
from workers.parcel import Outbox
from workers.slot import MAX_BREAKS, Office, Slot

GOOD = EvaluateReport(outcome=Measured(timing=Timing(samples_us=(5.0,))), binary_digest="same")
CRASHED = EvaluateReport(outcome=Crashed(stage="verify", reason="killed by SIGKILL"))


@dataclass
class Service:
    """Stands in for the client: hands out prepared leases, then stops the worker once none is left."""

    leases: list[Lease]
    stopping: threading.Event
    returned: list[Lease] = field(default_factory=list)
    reports: dict[int, Report] = field(default_factory=dict)
    released: list[int] = field(default_factory=list)
    twins: dict[str, EvaluateReport] = field(default_factory=dict)
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
    ) -> Leases:
        if self.answers:
            raise self.answers.pop(0)
        able = [lease for lease in self.leases if lease.terms.search_id not in unable]
        given = able[:count]
        self.leases = [lease for lease in self.leases if lease not in given]
        if not given and wait_s > 0:
            self.stopping.set()
        return Leases(leases=tuple(given))

    def report(self, attempt_id: int, token: str, report: Report) -> None:
        assert attempt_id not in self.reports
        self.reports[attempt_id] = report

    def release(self, attempt_id: int, token: str, *, reason: str) -> None:
        """As the real one, hands the job out again."""
        self.released.append(attempt_id)
        self.leases += [lease for lease in self.returned if lease.attempt_id == attempt_id]

    def twin(self, search_id: int, digest: str) -> EvaluateReport | None:
        return self.twins.get(digest)

    def put_artefact(self, digest: str, content: bytes) -> None: ...


class Performer:
    """Performs jobs by a function of the test."""

    def __init__(self, act: Callable[[Job], Report], digest: str | None, folder: Path) -> None:
        self._act = act
        self._digest = digest
        self._folder = folder
        self.performed = 0
        self.interrupted = 0
        self.closed = False

    def prepare(self, work: Assignment, job: Job) -> Preparation:
        return {"candidate": Built(folder=self._folder / "none", digest=self._digest)}

    def perform(self, work: Assignment, job: Job, built: Preparation) -> Report:
        self.performed += 1
        return self._act(job)

    def interrupt(self) -> None:
        self.interrupted += 1

    def close(self) -> None:
        self.closed = True


class Known:
    """Families of which every one is at hand, or none."""

    def __init__(self, error: FamilyMismatch | None = None) -> None:
        self._error = error

    def get(self, ref: FamilyRef) -> Copy | None:
        if self._error is not None:
            raise self._error
        return None


class Scene:
    """A slot with everything around it."""

    def __init__(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        *leases: Lease,
        act: Callable[[Job], Report] = lambda job: GOOD,
        digest: str | None = None,
        families: Known | None = None,
    ) -> None:
        monkeypatch.setattr("workers.slot.AWAY_S", 0.0)
        self.stopping = threading.Event()
        self.service = Service(leases=list(leases), stopping=self.stopping)
        self.performer = Performer(act, digest, folder)
        self.held = Held()
        office = Office(
            client=self.service,
            worker_id="w",
            register=self._register,
            families=families or Known(),
            outbox=Outbox(self.service, folder / "outbox"),
            held=self.held,
            stopping=self.stopping,
        )
        self.slot = Slot(any_lease(0).terms.device, self.performer, office)

    def play(self) -> "Scene":
        self.slot.run()
        return self

    def _register(self) -> None:
        self.service.registered += 1


def evaluation(number: int) -> Lease:
    return any_lease(number)


def test_every_lease_is_reported_once_and_nothing_is_held_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, monkeypatch, *map(evaluation, range(7))).play()
    assert sorted(scene.service.reports) == list(range(7))
    assert scene.service.released == []
    assert scene.held.leases == []
    assert scene.performer.closed


def test_seconds_are_accounted_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stages = Scene(tmp_path, monkeypatch, evaluation(1)).play().service.reports[1].stages
    assert 0 <= stages.wait_s <= stages.total_s


def test_equal_binaries_are_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path, monkeypatch, *map(evaluation, range(5)), digest="same").play()
    assert scene.performer.performed == 1
    assert [report.outcome for report in scene.service.reports.values()] == [GOOD.outcome] * 5


def test_a_binary_measured_by_another_worker_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, monkeypatch, evaluation(1), digest="same")
    scene.service.twins["same"] = GOOD
    scene.play()
    assert scene.performer.performed == 0
    assert scene.service.reports[1].environment["binary"] == "measured with an earlier trial"


def test_a_revoked_job_is_interrupted_and_neither_reported_nor_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def revoked_meanwhile(job: Job) -> Report:
        scene.slot.revoke(scene.held.revoke([1]))
        return CRASHED

    scene = Scene(tmp_path, monkeypatch, evaluation(1), act=revoked_meanwhile)
    scene.play()
    assert scene.performer.interrupted == 1
    assert (scene.service.reports, scene.service.released) == ({}, [])


def test_revoking_another_job_interrupts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other_revoked(job: Job) -> Report:
        scene.slot.revoke(scene.held.revoke([99]))
        return GOOD

    scene = Scene(tmp_path, monkeypatch, evaluation(1), act=other_revoked)
    scene.play()
    assert scene.performer.interrupted == 0
    assert list(scene.service.reports) == [1]


def test_a_job_revoked_before_its_turn_is_never_performed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def second_revoked(job: Job) -> Report:
        scene.held.revoke([2])
        return GOOD

    scene = Scene(tmp_path, monkeypatch, evaluation(1), evaluation(2), act=second_revoked)
    scene.play()
    assert scene.performer.performed == 1
    assert list(scene.service.reports) == [1]


def test_a_stopping_worker_gives_back_what_it_killed_and_what_it_had_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped_meanwhile(job: Job) -> Report:
        scene.stopping.set()
        return CRASHED

    scene = Scene(tmp_path, monkeypatch, *map(evaluation, range(3)), act=stopped_meanwhile)
    scene.play()
    assert scene.service.reports == {}
    assert sorted(scene.service.released) == [0, 1, 2]
    assert scene.held.leases == []


def test_a_result_that_came_just_before_the_end_is_still_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped_meanwhile(job: Job) -> Report:
        scene.stopping.set()
        return GOOD

    scene = Scene(tmp_path, monkeypatch, evaluation(1), act=stopped_meanwhile)
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
def test_what_keeps_breaking_the_worker_is_given_back_and_in_the_end_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: Job, verdict: Report
) -> None:
    def bug(job: Job) -> Report:
        raise RuntimeError("a bug")

    lease = Lease(**{**vars(evaluation(1)), "job": job})
    scene = Scene(tmp_path, monkeypatch, lease, act=bug)
    scene.service.returned = [lease]
    scene.play()
    assert len(scene.service.released) == MAX_BREAKS - 1
    assert scene.service.reports == {1: verdict}
    assert scene.held.leases == []


def test_a_family_this_machine_cannot_reproduce_is_given_back_and_not_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = evaluation(1)
    scene = Scene(tmp_path, monkeypatch, lease, families=Known(FamilyMismatch("another digest")))
    scene.service.returned = [lease]
    scene.play()
    assert (scene.service.released, scene.service.reports) == ([1], {})


def test_a_service_that_is_away_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path, monkeypatch, evaluation(1))
    scene.service.answers = [ServiceUnreachable("away"), ServiceUnreachable("away")]
    assert list(scene.play().service.reports) == [1]


def test_a_service_that_forgot_the_worker_is_told_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path, monkeypatch, evaluation(1))
    scene.service.answers = [NotFound("no such worker")]
    scene.play()
    assert scene.service.registered == 1
    assert list(scene.service.reports) == [1]


def test_a_refusal_for_good_ends_the_slot_visibly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path, monkeypatch, evaluation(1))
    scene.service.answers = [Conflict("go away")]
    with pytest.raises(Conflict):
        scene.play()
    assert scene.performer.closed
