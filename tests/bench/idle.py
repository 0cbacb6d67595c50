"""Measures how much of the time a device works if the network is slow: ``python -m tests.bench.idle``.

A worker's slot runs with a simulated service that answers late, and a simulated device that sleeps. Even on a busy
machine, the result therefore depends only on how long the slot waits.
"""

import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evo.client import Leases
from evo.device import Device, DeviceKind
from evo.messages.job import Answer, Delivery, Evaluate, FamilyRef, Job, Lease, SearchTerms
from evo.promotion.policy import Policy
from evo.trial.objective import Objective
from evo.trial.outcome import Measured
from evo.trial.results import EvaluateReport, Report
from evo.trial.timing import Timing
from workers.build.build import Built
from workers.build.families import Assignment
from workers.daemon.claims import Held, WorkerContext
from workers.daemon.slot import Slot
from workers.delivery.outbox import Outbox
from workers.jobs.evaluation import Preparation

JOBS, JOB_S, CORES = 100, 0.1, 8


class FarService:
    """A service with a fixed number of jobs, which delays each answer by a round-trip time."""

    def __init__(self, kind: DeviceKind, round_trip_s: float, stopping: threading.Event) -> None:
        self._left = list(range(JOBS))
        self._round_trip_s = round_trip_s
        self._stopping = stopping
        self._terms = SearchTerms(
            search_id=1,
            family=FamilyRef(name="f", digest="d"),
            problem={},
            device=Device(kind=kind, model="m", architecture="a", uuid=f"idle-{kind}"),
            objective=Objective(),
            policy=Policy(),
            seed=0,
        )

    @property
    def device(self) -> Device:
        return self._terms.device

    def lease(self, worker_id: str, device_uuid: str, *, count: int, wait_s: float, **_: Any) -> Leases:
        time.sleep(self._round_trip_s)
        numbers, self._left = self._left[:count], self._left[count:]
        if not numbers and wait_s > 0:
            self._stopping.set()
        return Leases(leases=tuple(self._job(number) for number in numbers))

    def _job(self, number: int) -> Lease:
        job = Evaluate(number=number, config={"N": number})
        return Lease(attempt_id=number + 1, token="t", lease_s=60.0, terms=self._terms, job=job)

    def report_many(self, deliveries: Sequence[Delivery], *, contents: Mapping[str, bytes]) -> tuple[Answer, ...]:
        time.sleep(self._round_trip_s)
        return tuple(Answer(attempt_id=each.attempt_id, status="accepted") for each in deliveries)

    def put_artefact(self, digest: str, content: bytes) -> None:
        time.sleep(self._round_trip_s)

    def find_duplicate(self, search_id: int, digest: str) -> EvaluateReport | None:
        return None


class Sleeper:
    """A device whose jobs have a fixed duration. It records its working seconds and the end of its last job."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.worked_s = 0.0
        self.ended_s = 0.0

    def prepare(self, work: Assignment, job: Job) -> Preparation:
        return {"candidate": Built(folder=self._folder / "none", source=repr(job))}

    def perform(self, work: Assignment, job: Job, built: Preparation) -> Report:
        begun_s = time.monotonic()
        time.sleep(JOB_S)
        self.ended_s = time.monotonic()
        self.worked_s += self.ended_s - begun_s
        return EvaluateReport(outcome=Measured(timing=Timing(samples_us=(1.0,))))

    def prove(self, work: Assignment) -> None: ...

    def begin(self) -> None: ...

    def interrupt(self) -> None: ...

    def close(self) -> None: ...


class AtHand:
    """A store of families that never needs a download."""

    def get(self, ref: FamilyRef) -> None:
        return None


def working_share(kind: DeviceKind, round_trip_s: float) -> float:
    """Return the share of time in which the device works, from the start of the first job to the end of the last."""
    stopping = threading.Event()
    service: Any = FarService(kind, round_trip_s, stopping)
    with tempfile.TemporaryDirectory() as name:
        device, families = Sleeper(Path(name)), AtHand()
        context = WorkerContext(
            client=service,
            worker_id="w",
            register=lambda: None,
            families=families,  # type: ignore[arg-type]
            outbox=Outbox(service, Path(name) / "outbox"),
            held=Held(),
            stopping=stopping,
        )
        context.outbox.start()
        begun_s = time.monotonic()
        Slot(service.device, device, context).run()
        context.outbox.close()
    return device.worked_s / (device.ended_s - begun_s)


def main() -> None:
    """Print one line for each round-trip time."""
    from workers.daemon import pipeline
    from workers.system import machine

    vars(pipeline)["core_numbers"] = lambda: list(range(CORES))
    machine.leave_last_core = lambda: None
    print(f"{JOBS} jobs of {JOB_S * 1e3:.0f} ms each; share of the time in which the device works")
    for round_trip_s in (0.0, 0.02, 0.1):
        shares = [f"{kind} {working_share(kind, round_trip_s):.1%}" for kind in ("cuda", "replay")]
        print(f"round trip {round_trip_s * 1e3:3.0f} ms: {', '.join(shares)}")


if __name__ == "__main__":
    main()
