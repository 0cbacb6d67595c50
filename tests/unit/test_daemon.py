"""The worker daemon starts in order, follows the messages of the service, and shuts down."""

import queue
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from evo.client import AccessDenied, Client, Leases, ServiceUnreachable
from evo.device import Device
from evo.errors import Conflict, EvoError, NotFound
from evo.messages.job import HeartbeatReply, SlotReport
from evo.trial.outcome import Cancelled
from evo.trial.results import EvaluateReport
from tests.unit.test_pipeline import lease as any_lease
from workers.backends.cpu.device import CpuDriver
from workers.daemon import daemon
from workers.daemon.daemon import NoDevice, Settings, Worker, discover
from workers.delivery.spool import PendingResult

DEVICE = Device(kind="replay", model="recording", architecture="recording", uuid="r")


class Service:
    """A fake service that returns prepared answers, and records the requests of a worker in order."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.looked, self.starting = 0, 0
        self.registering: list[EvoError] = []
        self.leasing: EvoError | None = None
        self.leaving: EvoError | None = None
        self.beating: EvoError | None = None
        self.incarnations: set[str] = set()
        self.reply = HeartbeatReply()
        self.beaten = threading.Event()

    def answers(self) -> bool:
        self.looked += 1
        return self.looked > self.starting

    def register_worker(
        self, worker_id: str, *, name: str, host: str, devices: Sequence[Device], incarnation: str
    ) -> None:
        self.incarnations.add(incarnation)
        self.said.append(f"register {worker_id} {name} {[device.uuid for device in devices]}")
        if self.registering:
            raise self.registering.pop(0)

    def family_bundle(self, digest: str) -> bytes:
        raise NotFound(f"no family with the digest {digest} was uploaded")

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
    monkeypatch.setattr(daemon, "PAUSE_S", 0.01)
    monkeypatch.setattr(daemon, "BEAT_S", 0.01)
    monkeypatch.setattr(daemon, "_TICK_S", 0.01)


def worker(folder: Path, service: Service, **changes: Any) -> tuple[Worker, threading.Event]:
    stopping = threading.Event()
    settings = Settings(
        url="http://service", data=folder / "data", cache=folder / "cache", kinds=["replay"], name="me", **changes
    )
    return Worker(settings, client=cast(Client, service), worker_id="w", folder=folder, stopping=stopping), stopping


def test_worker_registers_once_the_service_is_up_and_then_sends_heartbeats(tmp_path: Path) -> None:
    service = Service()
    service.registering = [ServiceUnreachable("not yet"), ServiceUnreachable("not yet")]
    this, stopping = worker(tmp_path, service)
    thread = threading.Thread(target=this.run)
    thread.start()
    assert service.beaten.wait(60)
    stopping.set()
    thread.join(60)
    assert [word.split()[0] for word in service.said[:4]] == ["register", "register", "register", "heartbeat"]
    assert service.said[0].startswith("register w me ['replay-")
    assert service.said[-1] == "leave w"


def test_worker_waits_for_a_starting_service_before_registering(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "LOOK_S", 0.001)
    service = Service()
    service.starting = 3
    this, stopping = worker(tmp_path, service)
    thread = threading.Thread(target=this.run)
    thread.start()
    assert service.beaten.wait(60)
    stopping.set()
    thread.join(60)
    assert service.looked == 4
    assert service.said[0].startswith("register w me")


def test_worker_stops_waiting_for_a_starting_service_and_registers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "STARTING_S", 0.02)
    service = Service()
    service.starting = 1_000_000
    this, stopping = worker(tmp_path, service)
    thread = threading.Thread(target=this.run)
    thread.start()
    assert service.beaten.wait(60)
    stopping.set()
    thread.join(60)
    assert service.said[0].startswith("register w me")


def test_worker_signs_off_without_an_error_if_the_service_is_unreachable(tmp_path: Path) -> None:
    service = Service()
    service.leaving = ServiceUnreachable("away")
    this, stopping = worker(tmp_path, service)
    stopping.set()
    this.run()
    assert service.said[-1] == "leave w"


@pytest.mark.parametrize("request_", ["leave", "heartbeat"])
def test_unexpected_failure_ends_every_thread_of_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_: str
) -> None:
    def fail(*_: object, **__: object) -> HeartbeatReply:
        raise RuntimeError("unexpected")

    service, before = Service(), set(threading.enumerate())
    this, stopping = worker(tmp_path, service)
    monkeypatch.setattr(service, request_, fail)
    if request_ == "leave":
        monkeypatch.setattr(this, "_register_when_there", stopping.set)
    with pytest.raises(RuntimeError, match="unexpected"):
        this.run()
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
        assert not thread.is_alive()


def test_worker_signs_off_while_a_slot_is_still_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service, left = Service(), threading.Event()
    this, stopping = worker(tmp_path, service)
    monkeypatch.setattr(service, "leave", lambda *_, **__: left.set())
    monkeypatch.setattr(this._slots[0], "run", lambda: service.said.append(f"ended {left.wait(60)}"))
    stopping.set()
    monkeypatch.setattr(this, "_register_when_there", lambda: None)
    this.run()
    assert service.said == ["ended True"]


def test_worker_superseded_by_a_later_process_ends_and_states_the_reason(tmp_path: Path) -> None:
    service = Service()
    service.beating = Conflict("another process registered as worker 'w' after this one")
    this, _ = worker(tmp_path, service)
    with pytest.raises(Conflict, match="another process"):
        this.run()


def test_every_worker_process_sends_a_different_incarnation(tmp_path: Path) -> None:
    service = Service()
    for _ in range(2):
        this, stopping = worker(tmp_path, service)
        thread = threading.Thread(target=this.run)
        thread.start()
        assert service.beaten.wait(60)
        stopping.set()
        thread.join(60)
    assert len(service.incarnations) == 2


def test_heartbeat_response_drains_the_worker_and_revokes_leases(tmp_path: Path) -> None:
    service = Service()
    service.reply = HeartbeatReply(cancel=(5, 99), drain=True)
    this, _ = worker(tmp_path, service)
    held = this._context.held
    held.take([any_lease(5), any_lease(6)])
    this._beat()
    assert service.said == ["heartbeat [5, 6]"]
    assert held.drain
    assert [held.revoked(lease) for lease in held.leases] == [True, False]


def test_quarantined_device_pauses_until_its_quarantine_ends(tmp_path: Path) -> None:
    service = Service()
    this, stopping = worker(tmp_path, service)
    (slot,) = this._slots
    service.reply = HeartbeatReply(quarantined=(slot.device.uuid, "another"))
    this._beat()
    slot._fault = None
    stopping.set()  # ends pauses immediately
    slot._step()
    assert slot.report.activity == "quarantined"
    service.reply = HeartbeatReply(quarantined=("another",))
    this._beat()
    slot._step()
    assert slot.report.activity == "idle"


def test_heartbeat_renews_the_leases_of_unsent_results(tmp_path: Path) -> None:
    service = Service()
    this, _ = worker(tmp_path, service)
    this._context.held.take([any_lease(5)])
    this._context.outbox.post(PendingResult(attempt_id=7, token="t", report=EvaluateReport(outcome=Cancelled())))
    this._beat()
    assert service.said == ["heartbeat [5, 7]"]


@pytest.mark.parametrize("early", [False, True], ids=["while watched", "before the first check"])
def test_begin_and_end_of_a_wait_for_the_device_are_reported_immediately(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, early: bool
) -> None:
    monkeypatch.setattr(daemon, "BEAT_S", 3600.0)
    service = Service()
    this, stopping = worker(tmp_path, service)
    (slot,) = this._slots
    reports: queue.Queue[SlotReport] = queue.Queue()

    def heartbeat(*_: object, slots: Sequence[SlotReport], **__: object) -> HeartbeatReply:
        reports.put(slots[0])
        return service.reply

    def run() -> None:
        if not early:
            slot._busy(any_lease(4), 7)
        assert reports.get(timeout=60).activity == "waiting"
        slot._doing = ("working", None)
        assert reports.get(timeout=60).activity == "working"
        stopping.set()

    monkeypatch.setattr(service, "heartbeat", heartbeat)
    monkeypatch.setattr(slot, "run", run)
    if early:
        slot._busy(any_lease(4), 7)
    this.run()
    assert reports.empty()


def test_exit_when_idle_s_setting_ends_a_worker_without_jobs(tmp_path: Path) -> None:
    service = Service()
    this, stopping = worker(tmp_path, service, exit_when_idle_s=0.02)
    this.run()
    assert stopping.is_set()
    assert service.said[-1] == "leave w"


def test_drain_after_s_setting_stops_claims_and_ends_the_worker(tmp_path: Path) -> None:
    service = Service()
    this, _ = worker(tmp_path, service, drain_after_s=0.0)
    this.run()
    assert this._context.held.closing
    assert service.said[-1] == "leave w"


def test_heartbeat_interval_is_at_most_a_third_of_the_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "BEAT_S", 5.0)
    this, _ = worker(tmp_path, Service())
    assert this._beat_s() == 5.0
    lease = any_lease(1)
    this._context.held.take([type(lease)(**{**vars(lease), "lease_s": 6.0})])
    assert this._beat_s() == 2.0


def test_refusal_by_the_service_ends_the_worker_and_the_error_states_the_reason(tmp_path: Path) -> None:
    service = Service()
    service.leasing = AccessDenied("wrong token")
    this, stopping = worker(tmp_path, service)
    with pytest.raises(AccessDenied, match="wrong token"):
        this.run()
    assert stopping.is_set()


def test_failed_heartbeat_does_not_end_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service()
    this, stopping = worker(tmp_path, service)

    def away(worker_id: str, attempts: Sequence[int], **_: object) -> HeartbeatReply:
        raise ServiceUnreachable("away")

    monkeypatch.setattr(service, "heartbeat", away)
    this._beat()
    assert not stopping.is_set()


def test_error_for_a_worker_without_devices_lists_what_each_kind_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setattr("workers.backends.cpu.device.DRIVER", CpuDriver())
    with pytest.raises(NoDevice, match=r"cpu needs a C compiler .*`cpu-compiler`.*kernel-evo doctor"):
        discover(["cpu"], tmp_path)
