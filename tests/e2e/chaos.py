"""Random faults at a running fleet, and what must hold afterwards: ``python -m tests.e2e.chaos --faults 100``."""

import asyncio
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, text

from db.location import Location
from db.session import Database, StoreUnavailable
from tests import postgresql
from tests.bench.fleet.ledger import wrong
from tests.bench.fleet.searches import begin
from tests.bench.fleet.services import Service
from tests.bench.fleet.wire import Wire

T = TypeVar("T")
LEASE_S = 3.0
SETTINGS = {"fsync": "off"}
"""Killing processes loses nothing that was written; only a power cut would."""
PATIENT = {"quick_samples": 5, "confirm_samples": 10, "max_worker_losses": 10**6}
PATIENCE_S = 600.0


class Fleet:
    """Service processes, simulated workers and the database server, each to be hurt."""

    def __init__(self, server: postgresql.Server, folder: Path, *, services: int, workers: int, seed: int) -> None:
        self.server = server
        self.folder = folder
        self.location: Location = server.lend()
        self.rng = random.Random(seed)
        self.services = [Service(self.location, folder, lease_s=LEASE_S) for _ in range(services)]
        self.workers: list[subprocess.Popen[bytes]] = []
        self._wanted = workers

    def begin(self, trials: int) -> None:
        for service in self.services:
            service.ready()
        self.workers = [self._worker(number) for number in range(self._wanted)]
        asyncio.run(self._submit(trials))

    async def _submit(self, trials: int) -> None:
        wire = Wire([service.url for service in self.services])
        for _ in range(600):
            try:
                await begin(wire, 3, strategy="random", trials=trials, policy=PATIENT)
                break
            except Exception:  # noqa: BLE001 - no worker has registered yet
                await asyncio.sleep(0.2)
        wire.close()

    def _worker(self, number: int) -> "subprocess.Popen[bytes]":
        urls = [service.url for service in self.services]
        command = [sys.executable, "-m", "tests.bench.fleet.process", str(number), str(self.rng.random()), *urls]
        command[4] = str(self.rng.randrange(2**32))
        with (self.folder / "answers").open("ab") as answers:
            return subprocess.Popen(command, stdout=answers, stderr=subprocess.DEVNULL)

    # Faults

    def kill_worker(self) -> None:
        """Its successor registers under the same name."""
        number = self.rng.randrange(len(self.workers))
        _end(self.workers[number])
        self.workers[number] = self._worker(number)

    def pause_worker(self) -> None:
        """Past its lease; what it hands in afterwards is late."""
        process = self.rng.choice(self.workers)
        process.send_signal(signal.SIGSTOP)
        time.sleep(LEASE_S + 1.5)
        process.send_signal(signal.SIGCONT)

    def kill_service(self) -> None:
        place = self.rng.randrange(len(self.services))
        _end(self.services[place].process)
        port = int(self.services[place].url.rpartition(":")[2])
        self.services[place] = Service(self.location, self.folder, lease_s=LEASE_S, port=port)

    def pause_service(self) -> None:
        process = self.rng.choice(self.services).process
        process.send_signal(signal.SIGSTOP)
        time.sleep(self.rng.uniform(0.5, 2 * LEASE_S))
        process.send_signal(signal.SIGCONT)

    def kill_database(self) -> None:
        self.server.kill()
        time.sleep(self.rng.uniform(0.0, 1.0))
        self.server.restart()

    def harm(self, faults: int) -> Counter[str]:
        """So many faults, one after the other; what they were."""
        kinds: Sequence[tuple[Callable[[], None], int]] = (
            (self.kill_worker, 5),
            (self.pause_worker, 2),
            (self.kill_service, 3),
            (self.pause_service, 2),
            (self.kill_database, 1),
        )
        weights = [weight for _, weight in kinds]
        done: Counter[str] = Counter()
        for place in range(faults):
            # each kind at least once, then as chance has it
            fault = kinds[place][0] if place < len(kinds) else self.rng.choices(kinds, weights)[0][0]
            fault()
            done[fault.__name__] += 1
            time.sleep(self.rng.uniform(0.0, 1.0))
        return done

    # Afterwards

    def stop_searches(self) -> None:
        """Let what was begun end, and wait for that."""
        ids = [row.id for row in self._rows("SELECT id FROM searches")]
        asyncio.run(self._stop(ids))
        deadline = time.monotonic() + PATIENCE_S
        while self._rows("SELECT id FROM searches WHERE state NOT IN ('finished', 'failed', 'cancelled')"):
            assert time.monotonic() < deadline, "the searches do not end"
            time.sleep(0.5)

    async def _stop(self, ids: Sequence[int]) -> None:
        wire = Wire([service.url for service in self.services])
        for search_id in ids:
            for _ in range(300):
                try:
                    await wire.ask("POST", f"/searches/{search_id}/stop", {})
                    break
                except Exception as error:  # noqa: BLE001 - it may still be starting
                    if "409" in str(error):
                        break
                    await asyncio.sleep(0.5)
        wire.close()

    def audit(self) -> Counter[str]:
        """Fail unless every trial ended exactly once; what the workers were answered, by status."""
        answers = [json.loads(line) for line in (self.folder / "answers").read_text().splitlines()]
        accepted = [attempt for attempt, status in answers if status == "accepted"]
        assert len(set(accepted)) == len(accepted), "a report was taken twice"
        done = {row.id for row in self._rows("SELECT id FROM attempts WHERE state = 'done'")}
        kinds = Counter(row.outcome_kind for row in self._rows("SELECT outcome_kind FROM trials"))
        contradictions = self._asked(wrong)
        assert not contradictions, contradictions
        assert set(accepted) <= done, "a report that was taken is gone"
        assert set(kinds) == {"measured"}, kinds
        assert not self._rows("SELECT id FROM attempts WHERE state = 'live'")
        return Counter(status for _, status in answers) + Counter(trials=kinds.total())

    def _rows(self, query: str) -> Sequence[Any]:
        return self._asked(lambda connection: connection.execute(text(query)).fetchall())

    def _asked(self, question: Callable[[Connection], T]) -> T:
        """An answer of the database, which may just be coming up again."""
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
        raise TimeoutError("the database does not come up again")

    def close(self) -> None:
        for process in (*self.workers, *(service.process for service in self.services)):
            _end(process)


def run(faults: int, *, services: int, workers: int, seed: int) -> tuple[Counter[str], Counter[str]]:
    """The faults that were done, and the answers that workers had; raises when something does not add up."""
    with postgresql.server(SETTINGS) as server, tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        fleet = Fleet(server, Path(folder), services=services, workers=workers, seed=seed)
        stack.callback(fleet.close)
        fleet.begin(trials=20_000)
        done = fleet.harm(faults)
        fleet.stop_searches()
        return done, fleet.audit()


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


def main() -> None:
    parser = ArgumentParser(prog="python -m tests.e2e.chaos")
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--services", type=int, default=3)
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.monotonic()
    done, answers = run(options.faults, services=options.services, workers=options.workers, seed=options.seed)
    print(f"{done.total()} faults in {time.monotonic() - began:.0f} s: {dict(done)}")
    print(f"every trial ended once, none twice, none lost; {dict(answers)}")


if __name__ == "__main__":
    main()
