"""Finds the running service and worker of a local database, or starts them as child processes."""

import fcntl
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from db.engine.key import ensure_key, local_key
from db.engine.ownership import running_service
from evo.cli.service.child import Child, ChildFailed, Deaths
from evo.cli.service.locations import LocalDatabase
from evo.cli.service.standby import Standby
from evo.client import Client, ServiceUnreachable
from evo.errors import EvoError
from evo.messages.worker_state import silence
from evo.search.lifecycle import State

START_S = 60.0
"""Seconds within which a started service must answer, or a started worker must find its devices."""
WORKER = "local"
"""Id of the worker that all commands on a local database share."""
CONNECTED_S = 45.0
"""A worker counts as connected for this number of seconds after its last message."""
LOOK_S = 0.1
PROVEN_S = 0.5
ANY_PORT = "0"
LOOPBACK = "127.0.0.1"


class NotStarted(EvoError, TimeoutError):
    """A process started but was not ready in time."""


class Local:
    """Keeps a service running on a database while this process needs the service.

    A service that already runs is used. If this service ends, this process starts a new service, so that several
    terminals can work on one database and end in any order. Child processes that die are restarted a limited number of
    times.

    Args:
        place: the database and its files.
        measuring: True if a worker is needed as well.
        standby: processes that are used instead of new processes, or None.
    """

    def __init__(self, place: LocalDatabase, *, measuring: bool, standby: Standby | None = None) -> None:
        self.place = place
        self._standby = standby or Standby()
        self.measuring = measuring
        self.url: str | None = None
        self._service: Child | None = None
        self._worker: Child | None = None
        self._worker_url: str | None = None
        self._deaths = Deaths()
        self._worker_lock = WorkerLock(place.worker_data)

    def tend(self) -> str:
        """Return the address of the service. Start the service and, if `measuring` is True, a worker if none runs.

        The call is fast while the service answers.

        Raises:
            EvoError: a process does not start or ends unexpectedly several times, or another process holds the database
                but does not answer in time.
        """
        if self._service is None or self._service.exit_code is not None:
            self._record_death(self._service)
            self._service = None
            if not self._attached():
                self._start_service(self._port())
        assert self.url is not None
        if self.measuring:
            self._tend_worker(self.url)
        return self.url

    def prepare(self) -> None:
        """Wait until the service answers and, if a worker is needed, until a worker with a device has registered.

        Raises:
            ChildFailed: the service or the worker ended. The message contains the end of its output.
            NotStarted: the service did not answer, or no worker registered, within `START_S`.
            EvoError: a log file or the worker's folder cannot be written.
        """
        begun = time.monotonic()
        url = self.tend()
        while self.measuring and not self._has_worker(url, begun):
            if self._worker is not None and self._worker.exit_code is not None:
                raise ChildFailed(self._worker.last_words())
            if time.monotonic() - begun > START_S:
                raise NotStarted(
                    f"no worker has registered within {START_S:.0f} s; start one: kernel-evo worker --url {url}"
                )
            time.sleep(LOOK_S)
            url = self.tend()

    def _has_worker(self, url: str, begun: float) -> bool:
        """Return True if a worker is connected. If this process started a worker, only messages since `begun` count."""
        within_s = time.monotonic() - begun if self._worker else CONNECTED_S
        return worker_connected(url, token=self._key, within_s=within_s)

    def let_finish(self) -> None:
        """Wait while the worker of this process may run a confirmation or ablation for another terminal.

        The wait lasts until no search of the service has a running confirmation or ablation, or until the worker has
        exited. If the worker ended earlier, its job would have to be repeated. The worker gets no new work during the
        wait. Ctrl-C or an error of the service ends the wait. Without a worker, this method does not wait.
        """
        if self._worker is None or self.url is None:
            return
        with suppress(EvoError, KeyboardInterrupt), Client(self.url, token=self._key, attempts=1) as client:
            if not (others := _in_confirmation(client)):
                return
            sys.stderr.write(
                f"The worker of this command confirms or ablates {', '.join(others)} for another terminal. "
                "This command waits until the worker has finished. After Ctrl-C, the work must be repeated.\n"
            )
            client.drain(WORKER)
            while self._worker.exit_code is None and _in_confirmation(client):
                time.sleep(PROVEN_S)

    def close(self) -> None:
        """End the child processes, the worker first so that it can report."""
        for child in (self._worker, self._service):
            if child is not None:
                child.stop()
        self._worker = self._service = None
        self._worker_lock.release()

    def _record_death(self, child: Child | None) -> None:
        if child is not None:
            self._deaths.record(child)

    def _attached(self) -> bool:
        """Use a service that another process runs on this database, and return True; return False if there is none.

        Wait for a service that is starting.

        Raises:
            NotStarted: a process holds the database, but does not answer in time.
        """
        deadline = time.monotonic() + START_S
        while (running := running_service(self.place.database)) is not None:
            if running.url is not None and (running.url == self.url or _answers(running.url)):
                self._use(running.url)
                return True
            if time.monotonic() > deadline:
                owner = f"process {running.pid} holds {self.place.database} but does not answer"
                raise NotStarted(f"{owner}; end it, or use another --db")
            time.sleep(LOOK_S)
        return False

    def _start_service(self, port: str) -> None:
        child = self._child("service", "serve", "--db", str(self.place.database), "--port", port)
        if self.measuring and port != ANY_PORT and self._worker is None:
            self._start_worker_early(f"http://{LOOPBACK}:{port}")
        deadline = time.monotonic() + START_S
        while child.exit_code is None:
            running = running_service(self.place.database)
            if running is not None and running.url is not None and _answers(running.url):
                self._service = child
                self._use(running.url)
                self._end_extra_worker(running.url)
                return
            if time.monotonic() > deadline:
                child.stop()
                raise NotStarted(f"the service did not answer within {START_S:.0f} s: {child.last_words()}")
            time.sleep(LOOK_S)
        if self._attached():  # another process has started a service
            return
        if port == ANY_PORT or _is_free(port):  # the port did not cause the failure
            raise ChildFailed(child.last_words())
        self._start_service(ANY_PORT)

    def _port(self) -> str:
        """Return the port for the service: a free port at the first start, later the same port, so clients find it."""
        return self.url.rpartition(":")[2] if self.url else free_port()

    def _use(self, url: str) -> None:
        if self._worker is not None and url != self._worker_url:
            self._worker.stop()
            self._worker = None
        self.url = url

    def _start_worker_early(self, url: str) -> None:
        """Start the worker while the service starts at this address, because each start takes a second or two."""
        with suppress(EvoError):  # the service reports why the folder cannot be used
            ensure_key(self.place.database)
            if self._worker_lock.acquire():
                self._start_worker(url)

    def _tend_worker(self, url: str) -> None:
        if self._worker is not None and self._worker.exit_code is None:
            return
        self._record_death(self._worker)
        if not worker_connected(url, token=self._key, other_than=WORKER) and self._worker_lock.acquire():
            self._start_worker(url)

    def _end_extra_worker(self, url: str) -> None:
        """If another worker is connected, stop the worker that this process started early."""
        if self._worker is not None and worker_connected(url, token=self._key, other_than=WORKER):
            self._worker.stop()
            self._worker = None

    def _start_worker(self, url: str) -> None:
        # because the id is fixed, the successor of a killed worker takes over its leases immediately
        arguments = ("--url", url, "--id", WORKER, "--data", str(self.place.worker_data))
        self._worker, self._worker_url = self._child("worker", "worker", *arguments), url

    @property
    def _key(self) -> str | None:
        return local_key(self.place.database)

    def _child(self, name: str, *arguments: str) -> Child:
        log = self.place.log(name)
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            return Child(name, arguments, log, token=self._key, standby=self._standby.take(arguments[0]))
        except OSError as error:
            raise EvoError(f"{log.parent} is not writable ({error.strerror}); use another --db") from None


def _in_confirmation(client: Client) -> list[str]:
    """Return a string, ``search ID (FAMILY)``, for each search whose confirmation or ablation a worker is running."""
    states: tuple[State, ...] = ("running", "paused", "stopping", "ablating")
    views = [view for state in states for view in client.searches(state=state, limit=200).items]
    return [f"search {view.id} ({view.family})" for view in views if view.proving and view.proving.since]


def free_port() -> str:
    """Return a free port of the loopback interface. If a program takes the port first, the service uses another
    port."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return str(probe.getsockname()[1])


def _is_free(port: str) -> bool:
    with socket.socket() as probe, suppress(OSError):
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((LOOPBACK, int(port)))
        return True
    return False


def _answers(url: str) -> bool:
    with Client(url, timeout_s=5.0) as client:
        return client.answers()


def worker_connected(
    url: str, *, token: str | None = None, within_s: float = CONNECTED_S, other_than: str | None = None
) -> bool:
    """Return True if a worker with a device sent a message in the last `within_s` seconds and has not shut down.

    The service measures these seconds, so differences between clocks do not matter. If the service is unreachable, the
    result is False.

    Args:
        other_than: id of a worker that is ignored, or None.
    """
    try:
        with Client(url, token=token, attempts=2) as client:
            workers = client.workers().items
    except ServiceUnreachable:
        return False
    here = [worker for worker in workers if worker.left_at is None and worker.id != other_than]
    return any(silence(worker) <= within_s and bool(worker.devices) for worker in here)


class WorkerLock:
    """Lock that lets only one of several terminals on a database run a worker, because the measurements of several
    workers would disturb each other.

    Args:
        folder: data folder of the worker, which contains the lock file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock: IO[bytes] | None = None

    def acquire(self) -> bool:
        """Take the lock, and return True. Return False if another process holds the lock.

        Raises:
            EvoError: the folder cannot be written.
        """
        if self._lock is not None:
            return True
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            lock = (self._folder / "lock").open("ab")
        except OSError as error:
            raise EvoError(f"{self._folder} is not writable ({error.strerror}); use another --db") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return False
        self._lock = lock
        return True

    def release(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
