"""The worker of a machine: registers the devices, runs a slot for each device, and renews leases."""

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import psutil
import structlog

from evo.client import Client, ServiceUnreachable
from evo.device import Device, DeviceKind, kinds
from evo.errors import Conflict, EvoError
from workers.backends import driver
from workers.backends.discovery import discovered
from workers.build.families import Families
from workers.daemon.claims import Held, WorkerContext
from workers.daemon.identity import claim_identity, own_token
from workers.daemon.idle_clock import Ending
from workers.daemon.slot import LONGEST_PAUSE_S, PAUSE_S, Slot
from workers.delivery.backoff import Backoff
from workers.delivery.outbox import Outbox
from workers.jobs.estimated import Estimator
from workers.jobs.evaluation import Evaluator, Performer
from workers.jobs.replayed import Replay
from workers.jobs.stopwatch import Status
from workers.system.scratch import scratch, sweep_scratch

BEAT_S = 5.0
"""Maximum interval between heartbeats in seconds. Short leases reduce it. The service's replies list revoked leases."""
_TICK_S = 0.25

STARTING_S = 10.0
"""For this many seconds after its start, a worker tries every `LOOK_S` seconds to reach the service."""

LOOK_S = 0.05

_LOG = structlog.get_logger()


class NoDevice(EvoError, LookupError):
    """Raised if this machine has no device that a worker can use."""


def _all_kinds() -> tuple[DeviceKind, ...]:
    return tuple(kinds())


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a worker.

    Attributes:
        url: URL of the service.
        token: worker token or join token; None if the service needs none. A join token is exchanged for a worker token,
            which is stored in `data`.
        data: folder for the worker's id and undelivered results.
        cache: cache folder for binaries and expected outputs, which may be deleted.
        kinds: device kinds to offer.
        worker_id: id of the worker. If None, the id that is stored in `data` is used.
        name: name of the worker on the pages. If None, the service uses the name of the worker token or, without one,
            of the host.
        exit_when_idle_s: idle seconds after which the worker exits; None for no limit.
        drain_after_s: age in seconds at which the worker stops requesting jobs; None for no limit.
        replay_scale: seconds to sleep per second of a recorded evaluation.
    """

    url: str
    token: str | None = None
    data: Path
    cache: Path
    kinds: Sequence[DeviceKind] = field(default_factory=_all_kinds)
    worker_id: str | None = None
    name: str | None = None
    exit_when_idle_s: float | None = None
    drain_after_s: float | None = None
    replay_scale: float = 0.0


def serve(settings: Settings, *, stopping: threading.Event | None = None) -> None:
    """Run a worker until it gets SIGTERM or SIGINT, `stopping` is set, or a limit in `settings` is reached.

    Raises:
        NoDevice: there is no usable device.
        EvoError: the service refuses this worker.
    """
    stopping = stopping or threading.Event()
    sweep_scratch()
    worker_id = settings.worker_id or claim_identity(settings.data).worker_id
    with _owning_the_process(stopping), scratch() as folder, _admitted(settings, worker_id, stopping) as client:
        Worker(settings, client=client, worker_id=worker_id, folder=folder, stopping=stopping).run()


def _admitted(settings: Settings, worker_id: str, stopping: threading.Event) -> Client:
    """Return a client with the worker's token. Wait for the service if a join token must first be exchanged."""
    kept = settings.data / f"{worker_id}.token"

    def pause(seconds: float) -> None:
        stopping.wait(seconds)

    while True:
        with Client(settings.url, token=settings.token) as first:
            try:
                token = own_token(settings.token, kept, lambda: first.join(worker_id, name=settings.name))
                return Client(settings.url, token=token, sleep=pause)  # the pauses end early if the worker stops
            except ServiceUnreachable as error:
                if stopping.wait(PAUSE_S):
                    raise
                _LOG.warning("the service cannot be reached", reason=str(error))


def discover(kinds: Sequence[DeviceKind], cache: Path) -> list[Device]:
    """Return all devices of these kinds on this machine.

    A kind whose devices cannot be examined is logged and left out if devices of other kinds are found.

    Raises:
        NoDevice: there is no device.
        EvoError: the devices of a kind cannot be examined, and there are no others.
    """
    found = discovered(kinds, cache)
    for kind, fault in found.faults.items():
        _LOG.warning("the devices of a kind cannot be examined", kind=kind, reason=str(fault))
    if not found.devices:
        raise NoDevice(
            f"no device of kind {', '.join(kinds)} was found; cpu needs a C compiler (gcc, clang, or the extra "
            "`cpu-compiler`), cuda an NVIDIA driver and the extra `cuda12` or `cuda13`; see `kernel-evo doctor`"
        )
    return list(found.devices)


class Worker:
    """A worker process with its slots and its heartbeat."""

    def __init__(
        self, settings: Settings, *, client: Client, worker_id: str, folder: Path, stopping: threading.Event
    ) -> None:
        self._settings = settings
        self._devices = discover(settings.kinds, settings.cache)
        self._folder = folder
        self._failure: BaseException | None = None
        self._evaluators: list[Evaluator] = []
        self._context = WorkerContext(
            client=client,
            worker_id=worker_id,
            register=self._register,
            families=Families(folder / "families", client.family_bundle),
            outbox=Outbox(client, settings.data / "outbox" / worker_id),
            held=Held(),
            stopping=stopping,
        )
        self._slots = [self._slot(device) for device in self._devices]
        self._ending = Ending(
            begun_s=time.monotonic(), idle_s=settings.exit_when_idle_s, drain_after_s=settings.drain_after_s
        )
        self._away = Backoff(stopping, first_s=PAUSE_S, longest_s=LONGEST_PAUSE_S)

    def run(self) -> None:
        """Register the worker, run its slots until it stops, and return its leases to the service.

        Raises:
            EvoError: the service refuses this worker.
        """
        for evaluator in self._evaluators:
            evaluator.stand_by()
        try:
            self._register_when_there()
            self._serve()
        finally:
            for evaluator in self._evaluators:
                evaluator.close()
        if self._failure is not None:
            raise self._failure

    def _serve(self) -> None:
        outbox = self._context.outbox
        outbox.start()
        try:
            self._run_slots()
        finally:
            outbox.close()  # otherwise the thread of the outbox would keep the process alive
        self._leave()  # a second time, for leases that were granted in the meantime

    def _run_slots(self) -> None:
        threads = [threading.Thread(target=self._guard, args=(slot,), name=slot.device.uuid) for slot in self._slots]
        for thread in threads:
            thread.start()
        try:
            self._watch()
        finally:
            self._context.stopping.set()
            for slot in self._slots:
                slot.interrupt()
            self._leave()  # called before the slots stop, so that the leases are immediately free
            for thread in threads:
                thread.join()

    def _watch(self) -> None:
        """Send heartbeats until the worker stops. Stop the worker if it has been idle or running for too long.

        A heartbeat is sent immediately when a slot starts or stops waiting for its device, because the service does not
        count this time as running time of the search.
        """
        context, beaten_s = self._context, time.monotonic()
        reported: set[int | None] = set()  # the slots have started, so one may wait already
        while not context.stopping.wait(_TICK_S):
            now_s, waiting = time.monotonic(), self._waiting()
            if now_s - beaten_s >= self._beat_s() or waiting != reported:
                beaten_s, reported = now_s, waiting
                self._beat()
            context.held.closing = self._ending.closing(now_s)
            if reason := self._ending.due(now_s, busy=bool(self._attempts())):
                _LOG.info("the worker stops", reason=reason)
                context.stopping.set()

    def _slot(self, device: Device) -> Slot:
        status = Status()
        return Slot(device, self._performer(device, status), self._context, status)

    def _performer(self, device: Device, status: Status) -> Performer:
        if device.runs == "recordings":
            return Replay(self._settings.replay_scale)
        cache, folder = self._settings.cache, self._folder / device.uuid
        if device.runs == "nothing":
            return Estimator(driver(device.kind).compiler, cache, folder)
        evaluator = Evaluator(device.kind, cache, folder, status=status)
        self._evaluators.append(evaluator)
        return evaluator

    def _guard(self, slot: Slot) -> None:
        """Run a slot in its thread. An unexpected failure ends the worker."""
        try:
            slot.run()
        except BaseException as error:  # noqa: BLE001 - re-raised by the main thread
            self._failure = error
            self._context.stopping.set()

    def _register(self) -> None:
        host = socket.gethostname()
        self._context.client.register_worker(
            self._context.worker_id,
            name=self._settings.name,
            host=host,
            devices=self._devices,
            incarnation=self._context.incarnation,
        )
        _LOG.info("worker registered", worker=self._context.worker_id, devices=[each.model for each in self._devices])

    def _register_when_there(self) -> None:
        """Wait until the service can be reached, and register the worker.

        Results of an earlier process are delivered first, because the registration ends all earlier leases of the
        worker. The first attempts have short pauses, because worker and service may start at the same time.
        """
        soon_s = time.monotonic() + STARTING_S
        while not self._context.client.answers() and time.monotonic() < soon_s:
            if self._context.stopping.wait(LOOK_S):
                return
        while not self._context.stopping.is_set():
            try:
                if self._context.outbox.flush():
                    self._register()
                    return
            except ServiceUnreachable as error:
                _LOG.warning("the service cannot be reached", reason=str(error))
            self._away.wait()

    def _leave(self) -> None:
        """Deliver remaining results and deregister, which returns all leases.

        If this fails, the leases expire later.
        """
        try:
            self._context.outbox.flush()
            self._context.client.leave(self._context.worker_id, incarnation=self._context.incarnation)
        except EvoError as error:
            _LOG.warning("the worker could not deregister; its leases will expire", reason=str(error))

    def _waiting(self) -> set[int | None]:
        """Return the ids of the attempts that wait for a device that another process holds; empty if none waits."""
        reports = [slot.report for slot in self._slots]
        return {report.attempt_id for report in reports if report.activity == "waiting"}

    def _beat_s(self) -> float:
        return min([BEAT_S, *(lease.lease_s / 3 for lease in self._context.held.leases)])

    def _attempts(self) -> list[int]:
        """Return the ids of attempts whose leases must be renewed: those of claimed jobs and of undelivered results."""
        attempts = [lease.attempt_id for lease in self._context.held.leases]
        return list(dict.fromkeys([*attempts, *self._context.outbox.waiting]))

    def _beat(self) -> None:
        context, said = self._context, [slot.report for slot in self._slots]
        try:
            reply = context.client.heartbeat(
                context.worker_id,
                self._attempts(),
                slots=said,
                note=context.outbox.trouble,
                incarnation=context.incarnation,
            )
        except Conflict as error:  # another process uses the same worker id
            self._failure = error
            context.stopping.set()
            return
        except EvoError as error:
            _LOG.warning("a heartbeat failed", reason=str(error))
            return
        context.held.drain = reply.drain
        revoked = context.held.revoke(reply.cancel)
        for slot, report in zip(self._slots, said, strict=True):
            slot.revoke(revoked)
            slot.acknowledge(report, set_aside=slot.device.uuid in reply.quarantined)


@contextmanager
def _owning_the_process(stopping: threading.Event) -> Iterator[None]:
    """Context manager that stops the worker on SIGTERM and SIGINT, and kills child processes at the end.

    Outside the main thread, it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _end_children()


def _end_children() -> None:
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
