"""The worker as a whole: the order in which it starts, what it hears from the service, and how it ends."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evo.client import AccessDenied, Leases, ServiceUnreachable
from evo.device import Device
from evo.errors import Conflict, EvoError, NotFound
from evo.messages.job import HeartbeatReply
from evo.results import EvaluateReport
from evo.trial.outcome import Cancelled
from tests.unit.test_pipeline import lease as any_lease
from workers.backends.cpu.device import CpuDriver
from workers.daemon import daemon
from workers.daemon.daemon import NoDevice, Settings, Worker, discover
from workers.delivery.spool import Parcel

DEVICE = Device(kind="replay", model="recording", architecture="recording", uuid="r")


class Service:
    """Notes what a worker says, in order; answers what the test prepared."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.registering: list[EvoError] = []
        self.leasing: EvoError | None = None
        self.leaving: EvoError | None = None
        self.beating: EvoError | None = None
        self.incarnations: set[str] = set()
        self.reply = HeartbeatReply()
        self.beaten = threading.Event()

    def register_worker(
        self, worker_id: str, *, name: str, host: str, devices: Sequence[Device], incarnation: str
    ) -> None:
        self.incarnations.add(incarnation)
        self.said.append(f"register {worker_id} {name} {[device.uuid for device in devices]}")
        if self.registering:
            raise self.registering.pop(0)

    def family_bundle(self, digest: str) -> bytes:
        raise NotFound(f"nobody uploaded {digest}")

    def lease(self, worker_id: str, device_uuid: str, *, incarnation: str, **_: object) -> Leases:
        self.incarnations.add(incarnation)
        if self.leasing is not None:
            raise self.leasing
        threading.Event().wait(0.01)
        return Leases()

    def heartbeat(self, worker_id: str, attempts: Sequence[int], *, incarnation: str, **_: object) -> HeartbeatReply:
        self.incarnations.add(incarnation)
        self.said.append(f"heartbeat {list(attempts)}")
        self.beaten.set()
        if self.beating is not None:
            raise self.beating
        return self.reply

    def leave(self, worker_id: str, *, incarnation: str) -> None:
        self.incarnations.add(incarnation)
        self.said.append(f"leave {worker_id}")
        if self.leaving is not None:
            raise self.leaving


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "AWAY_S", 0.01)
    monkeypatch.setattr(daemon, "BEAT_S", 0.01)
    monkeypatch.setattr(daemon, "_TICK_S", 0.01)


def worker(folder: Path, service: Service, **changes: Any) -> tuple[Worker, threading.Event]:
    stopping = threading.Event()
    settings = Settings(
        url="http://service", data=folder / "data", cache=folder / "cache", kinds=["replay"], name="me", **changes
    )
    return Worker(settings, client=service, worker_id="w", folder=folder, stopping=stopping), stopping


def test_it_registers_once_the_service_is_there_and_then_says_that_it_lives(tmp_path: Path) -> None:
    service = Service()
    service.registering = [ServiceUnreachable("not yet"), ServiceUnreachable("not yet")]
    this, stopping = worker(tmp_path, service)
    thread = threading.Thread(target=this.run)
    thread.start()
    assert service.beaten.wait(10)
    stopping.set()
    thread.join(10)
    assert [word.split()[0] for word in service.said[:4]] == ["register", "register", "register", "heartbeat"]
    assert service.said[0].startswith("register w me ['replay-")
    assert service.said[-1] == "leave w"


def test_a_service_that_is_not_there_for_the_goodbye_is_no_failure(tmp_path: Path) -> None:
    service = Service()
    service.leaving = ServiceUnreachable("away")
    this, stopping = worker(tmp_path, service)
    stopping.set()
    this.run()
    assert service.said[-1] == "leave w"


def test_what_it_holds_is_given_back_while_a_slot_is_still_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, left = Service(), threading.Event()
    this, stopping = worker(tmp_path, service)
    monkeypatch.setattr(service, "leave", lambda *_, **__: left.set())
    monkeypatch.setattr(this._slots[0], "run", lambda: service.said.append(f"ended {left.wait(5)}"))
    stopping.set()
    monkeypatch.setattr(this, "_register_when_there", lambda: None)
    this.run()
    assert service.said == ["ended True"]


def test_a_worker_whose_identity_another_process_took_ends_with_the_reason(tmp_path: Path) -> None:
    service = Service()
    service.beating = Conflict("another process registered as worker 'w' after this one")
    this, _ = worker(tmp_path, service)
    with pytest.raises(Conflict, match="another process"):
        this.run()


def test_every_request_of_a_worker_names_its_process(tmp_path: Path) -> None:
    service = Service()
    for _ in range(2):
        this, stopping = worker(tmp_path, service)
        thread = threading.Thread(target=this.run)
        thread.start()
        assert service.beaten.wait(10)
        stopping.set()
        thread.join(10)
    assert len(service.incarnations) == 2


def test_what_the_service_wants_reaches_the_slots(tmp_path: Path) -> None:
    service = Service()
    service.reply = HeartbeatReply(cancel=(5, 99), drain=True)
    this, _ = worker(tmp_path, service)
    held = this._office.held
    held.take([any_lease(5), any_lease(6)])
    this._beat()
    assert service.said == ["heartbeat [5, 6]"]
    assert held.drain
    assert [held.revoked(lease) for lease in held.leases] == [True, False]


def test_a_device_that_is_set_aside_stands_aside_until_the_service_says_otherwise(tmp_path: Path) -> None:
    service = Service()
    this, stopping = worker(tmp_path, service)
    (slot,) = this._slots
    service.reply = HeartbeatReply(quarantined=(slot.device.uuid, "another"))
    this._beat()
    slot._fault = None
    stopping.set()  # so that no pause lasts
    slot._step()
    assert slot.report.activity == "quarantined"
    service.reply = HeartbeatReply(quarantined=("another",))
    this._beat()
    slot._step()
    assert slot.report.activity == "idle"


def test_leases_of_results_that_wait_are_renewed_too(tmp_path: Path) -> None:
    service = Service()
    this, _ = worker(tmp_path, service)
    this._office.held.take([any_lease(5)])
    this._office.outbox.post(Parcel(attempt_id=7, token="t", report=EvaluateReport(outcome=Cancelled())))
    this._beat()
    assert service.said == ["heartbeat [5, 7]"]


def test_without_work_it_ends_by_itself_where_that_was_asked_for(tmp_path: Path) -> None:
    service = Service()
    this, stopping = worker(tmp_path, service, exit_when_idle_s=0.02)
    this.run()
    assert stopping.is_set()
    assert service.said[-1] == "leave w"


def test_when_its_time_is_over_it_asks_for_no_more_and_ends(tmp_path: Path) -> None:
    service = Service()
    this, _ = worker(tmp_path, service, drain_after_s=0.0)
    this.run()
    assert this._office.held.closing
    assert service.said[-1] == "leave w"


def test_leases_are_renewed_at_a_third_of_their_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "BEAT_S", 5.0)
    this, _ = worker(tmp_path, Service())
    assert this._beat_s() == 5.0
    lease = any_lease(1)
    this._office.held.take([type(lease)(**{**vars(lease), "lease_s": 6.0})])
    assert this._beat_s() == 2.0


def test_a_service_that_refuses_it_ends_it_with_the_reason(tmp_path: Path) -> None:
    service = Service()
    service.leasing = AccessDenied("wrong token")
    this, stopping = worker(tmp_path, service)
    with pytest.raises(AccessDenied, match="wrong token"):
        this.run()
    assert stopping.is_set()


def test_a_failed_heartbeat_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service()
    this, _ = worker(tmp_path, service)

    def away(worker_id: str, attempts: Sequence[int], **_: object) -> HeartbeatReply:
        raise ServiceUnreachable("away")

    monkeypatch.setattr(service, "heartbeat", away)
    this._beat()


def test_without_any_device_it_says_what_each_kind_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setattr("workers.backends.cpu.device.DRIVER", CpuDriver())
    with pytest.raises(NoDevice, match=r"cpu needs a C compiler .*`cpu-compiler`.*kernel-evo doctor"):
        discover(["cpu"], tmp_path)
