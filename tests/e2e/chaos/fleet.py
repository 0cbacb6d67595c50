"""A fleet: service processes, simulated and real workers, the network between them, and the database server."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, text

from db.engine.location import Location
from db.engine.session import Database, StoreUnavailable
from evo.cli.session.request import Request
from evo.client import Client, ServiceError, ServiceUnreachable
from evo.errors import Conflict, NotFound
from tests import postgresql
from tests.bench.fleet.searches import begin
from tests.bench.fleet.services import Service
from tests.bench.fleet.wire import Wire
from tests.e2e.chaos.network import Network
from tests.e2e.chaos.worker import Machine, RealWorker, built_shim
from workers.system.machine import processor_model

T = TypeVar("T")
LEASE_S = 3.0
SHORT = {"quick_samples": 5, "confirm_samples": 10, "challenge_every": 200}
"""A policy with few samples, so that faults hit many trials. Its rules for faults are those of the default policy."""
PATIENCE_S = 600.0
RECORDING = Path(__file__).resolve().parents[2] / "data" / "spaces" / "convolution-RTX_3090.json.gz"
KINDS = ("cpu", "replay")
"""Device kinds of the real workers. `cpu` has runners; `replay` answers fast, so faults often hit its reports."""


class Fleet:
    """Workers, services, network and database server of a fleet. `tests.e2e.chaos.faults` injects faults into them."""

    def __init__(self, server: postgresql.Server, folder: Path, stack: ExitStack, *, services: int, seed: int) -> None:
        self.server = server
        self.folder = folder
        self.location: Location = server.lend()
        self._seed = seed
        self.services: list[Service] = [Service(self.location, folder, lease_s=LEASE_S) for _ in range(services)]
        self.simulated: list[subprocess.Popen[bytes]] = []
        self.real: list[RealWorker] = []
        stack.callback(self._end)
        self.network = Network([_port(service) for service in self.services])
        stack.callback(self.network.close)

    def begin(self, simulated: int) -> None:
        """Start the workers, and a search for each kind of worker."""
        for service in self.services:
            service.ready()
        shim = built_shim(self.folder)
        self.simulated = [self.simulated_worker(number) for number in range(simulated)]
        self.real = [RealWorker(self.network.url, Machine(self.folder / kind, shim), kind) for kind in KINDS]
        asyncio.run(self._submit_simulated())
        self._submit("softmax", problem="rows=64,cols=256", device=processor_model())
        self._submit(str(RECORDING), problem="", device="replay")

    async def _submit_simulated(self) -> None:
        wire = Wire([service.url for service in self.services])
        for _ in range(600):
            try:
                await begin(wire, 3, strategy="random", trials=20_000, policy=SHORT)
                break
            except Exception:  # noqa: BLE001 - no worker has registered yet
                await asyncio.sleep(0.2)
        wire.close()

    def _submit(self, family: str, *, problem: str, device: str) -> None:
        request = Request.of(
            family=family, problem=problem, policy="default", device=device, strategy="random", seed=1, budget={}
        ).under(SHORT)
        deadline = time.monotonic() + PATIENCE_S
        with Client(self.services[0].url) as client:
            while True:
                try:
                    request.submit(client)
                    return
                except Conflict:  # the worker has not registered yet
                    assert time.monotonic() < deadline, f"no worker offers {device}"
                    time.sleep(0.5)

    def simulated_worker(self, number: int) -> "subprocess.Popen[bytes]":
        """Start a simulated worker whose network loses messages. A restarted worker keeps its name."""
        urls = [service.url for service in self.services]
        command = [sys.executable, "-m", "tests.bench.fleet.process", str(number), str(self._seed), *urls]
        self._seed += 1
        with (self.folder / "answers").open("ab") as answers, (self.folder / "simulated.log").open("ab") as log:
            return subprocess.Popen(command, stdout=answers, stderr=log)

    def replace_service(self, place: int) -> None:
        """Kill a service with SIGKILL and start another one at its address."""
        old = self.services[place]
        end(old.process)
        self.services[place] = Service(self.location, self.folder, lease_s=LEASE_S, port=_port(old))

    def look_after(self) -> None:
        """Clear the quarantine of devices and restart ended processes, as an operator and a watchdog would.

        A service exits if the database is down when it starts.
        """
        for worker in self.real:
            worker.look_after()
        for index, service in enumerate(self.services):
            if service.process.poll() is not None:
                self.replace_service(index)
        ended = [number for number, process in enumerate(self.simulated) if process.poll() is not None]
        assert not ended, f"simulated workers ended: {(self.folder / 'simulated.log').read_text()[-3000:]}"
        try:
            with Client(self.services[0].url, attempts=1) as client:
                for seen in client.workers().items:
                    for slot in seen.slots:
                        if slot.quarantine_reason is not None:
                            client.clear(seen.id, slot.device_uuid)
        except (ServiceUnreachable, ServiceError, NotFound):  # the next call starts the service again
            return

    def finish(self) -> None:
        """Wait until all searches have ended."""
        for row in self.rows("SELECT id FROM searches"):
            self._stop(row.id)
        deadline = time.monotonic() + PATIENCE_S
        while self.rows("SELECT id FROM searches WHERE state NOT IN ('finished', 'failed', 'cancelled')"):
            assert time.monotonic() < deadline, "the searches have not ended within the time limit"
            self.look_after()
            time.sleep(0.5)

    def _stop(self, search_id: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        with Client(self.services[0].url, attempts=1) as client:
            while True:
                try:
                    client.command(search_id, "stop")
                    return
                except Conflict:  # the search has already ended
                    return
                except (ServiceUnreachable, ServiceError) as error:  # the service may still be starting
                    assert time.monotonic() < deadline, f"search {search_id} cannot be stopped: {error}"
                    self.look_after()
                    time.sleep(0.5)

    def rows(self, query: str) -> Sequence[Any]:
        return self.asked(lambda connection: connection.execute(text(query)).fetchall())

    def asked(self, question: Callable[[Connection], T]) -> T:
        """Query the database, and wait while it is starting."""
        for _ in range(100):
            try:
                database = Database.open(self.location)
            except StoreUnavailable:
                time.sleep(0.2)
                continue
            try:
                with database.engine.connect() as connection:
                    return question(connection)
            finally:
                database.close()
        raise TimeoutError("the database does not start again")

    def _end(self) -> None:
        for process in (*self.simulated, *(service.process for service in self.services)):
            end(process)
        for worker in self.real:
            worker.end()


def end(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process with SIGKILL and wait for its end."""
    process.kill()
    process.wait()


def _port(service: Service) -> int:
    return int(service.url.rpartition(":")[2])
