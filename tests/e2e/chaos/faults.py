"""Faults of a fleet. The method of a fault returns False if there was no target."""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from subprocess import Popen

import psutil

from tests.e2e.chaos.fleet import LEASE_S, Fleet, end

JUMPS_S = (-86_400.0, -300.0, -LEASE_S, LEASE_S, 300.0, 86_400.0)
RUNNER_S = 20.0
"""Seconds to wait for a runner, because its worker may be compiling or starting."""


class Faults:
    """Injects faults into a fleet at random times, with random targets."""

    def __init__(self, fleet: Fleet, rng: random.Random) -> None:
        self.fleet = fleet
        self.rng = rng

    def do(self, count: int) -> Counter[str]:
        """Inject `count` faults one after the other, each kind at least once; return the number of faults by name."""
        kinds: Sequence[tuple[Callable[[], bool], int]] = (
            (self.kill_worker, 4),
            (self.pause_worker, 2),
            (self.kill_runner, 4),
            (self.fill_disk, 2),
            (self.jump_clock, 2),
            (self.cut_connections, 2),
            (self.delay_connections, 1),
            (self.kill_service, 3),
            (self.pause_service, 2),
            (self.kill_database, 1),
        )
        weights = [weight for _, weight in kinds]
        waiting = [fault for fault, _ in kinds]
        done: Counter[str] = Counter()
        while done.total() < count:
            fault = waiting.pop(0) if waiting else self.rng.choices(kinds, weights)[0][0]
            done[fault.__name__] += fault()
            self.fleet.look_after()
            time.sleep(self.rng.uniform(0.0, 1.0))
        return done

    def kill_worker(self) -> bool:
        """Kill a worker and start a new one with the same identity."""
        place = self.rng.randrange(len(self.fleet.simulated) + len(self.fleet.real))
        if place < len(self.fleet.real):
            self.fleet.real[place].restart()
        else:
            number = place - len(self.fleet.real)
            end(self.fleet.simulated[number])
            self.fleet.simulated[number] = self.fleet.simulated_worker(number)
        return True

    def pause_worker(self) -> bool:
        """Pause a worker beyond its lease, so that its results come late."""
        processes = [*self.fleet.simulated, *(worker.process for worker in self.fleet.real)]
        return _paused(self.rng.choice(processes), LEASE_S + 1.5)

    def kill_runner(self) -> bool:
        """Kill a runner, the child process of a worker that uses the device."""
        deadline = time.monotonic() + RUNNER_S
        while time.monotonic() < deadline:
            runners = [runner for worker in self.fleet.real for runner in worker.runners]
            try:
                if runners:
                    self.rng.choice(runners).kill()
                    return True
            except psutil.NoSuchProcess:
                continue
            time.sleep(0.01)
        return False

    def fill_disk(self) -> bool:
        """Fill a worker's disk for a while, so that results cannot be stored. Sometimes kill the worker meanwhile."""
        worker = self.rng.choice(self.fleet.real)
        worker.machine.fill_disk()
        time.sleep(self.rng.uniform(0.5, 3.0))
        if self.rng.random() < 0.3:
            worker.restart()
        worker.machine.free_disk()
        return True

    def jump_clock(self) -> bool:
        """Move a worker's wall clock up to a day back or ahead while it works."""
        self.rng.choice(self.fleet.real).machine.jump(self.rng.choice(JUMPS_S))
        return True

    def cut_connections(self) -> bool:
        self.fleet.network.cut()
        return True

    def delay_connections(self) -> bool:
        """Delay connections by up to 1.5 times the duration of a lease, so that heartbeats may come too late."""
        self.fleet.network.hold(self.rng.uniform(0.2, 1.5 * LEASE_S))
        return True

    def kill_service(self) -> bool:
        self.fleet.replace_service(self.rng.randrange(len(self.fleet.services)))
        return True

    def pause_service(self) -> bool:
        return _paused(self.rng.choice(self.fleet.services).process, self.rng.uniform(0.5, 2 * LEASE_S))

    def kill_database(self) -> bool:
        self.fleet.server.kill()
        time.sleep(self.rng.uniform(0.0, 1.0))
        self.fleet.server.restart()
        return True


def _paused(process: "Popen[bytes]", seconds: float) -> bool:
    process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    process.send_signal(signal.SIGCONT)
    return True
