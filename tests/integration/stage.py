"""Fixtures of service tests: a toy family, a device, a manual clock, and a fake worker."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from api.scheduler.conductor import Conductor
from api.schemas import LeaseReply, SearchRequest
from api.views import search_view, trial_views
from db.engine.location import Location
from db.engine.session import Database
from db.models import ChampionRow
from db.repositories.archive import Archive
from db.repositories.champions import Champions
from evo.device import Ceilings, Device
from evo.messages.job import Ablate, Baseline, Confirm, Evaluate, Lease
from evo.messages.view import SearchView, TrialView
from evo.promotion.policy import Policy
from evo.trial import Config
from evo.trial.outcome import CaseError, Measured, Outcome
from evo.trial.results import (
    Ablated,
    AblateReport,
    BaselineReport,
    ConfirmReport,
    EvaluateReport,
    OutputChecks,
    OverwriteCheck,
    Repeat,
    Repetition,
    Report,
    Sanitized,
    Stages,
)
from evo.trial.timing import Timing
from tests.integration.blank import prepared

DIGEST = "ab" * 32
OTHER_DIGEST = "cd" * 32

TOY: dict[str, Any] = {
    "name": "toy",
    "title": "A toy",
    "problem": {"N": {"type": "int", "default": 64, "min": 1, "max": 4096}},
    "arguments": [
        {"name": "x", "role": "input", "shape": ["N"], "dtype": "float32"},
        {"name": "y", "role": "output", "shape": ["N"], "dtype": "float32", "rel_l2": 1e-5, "max_abs": 1e-5},
    ],
    "work": {"flops": "N", "bytes": "8 * N", "dtype": "float32"},
    "cases": [{"name": "nominal", "inputs": "normal"}],
    "cpu": {
        "template": "kernel.c.j2",
        "entry": "toy",
        "tunables": {
            "BLOCK": {"values": [1, 2, 4, 8, 16], "default": 4},
            "UNROLL": {"values": [1, 2, 4], "default": 1},
        },
        "constraints": [
            {"expression": "BLOCK * UNROLL <= 32", "because": "the accumulators must fit into the registers"}
        ],
    },
}

VALID = 14
"""Number of valid configs: all of the 5 × 3 configs except BLOCK=16, UNROLL=4."""

DEVICE = Device(
    kind="cpu",
    model="Toy CPU",
    architecture="x86_64",
    uuid="cpu-0",
    limits={"cores": 2.0},
    ceilings=Ceilings(flops_per_s={"float32": 1e9}, bytes_per_s=1e9, source="table"),
)

QUICK = {"quick_samples": 5, "confirm_samples": 10, "confirm_processes": 1}


RIGHT = CaseError(case="nominal", output="y", rel_l2=0.0, max_abs=0.0, rel_l2_limit=1e-5, max_abs_limit=1e-5)
PROOF: dict[str, Any] = {
    "cases": (RIGHT,),
    "answers": OutputChecks(judged=20),
    "overwrite_check": OverwriteCheck(
        answered=Timing(samples_us=(10.0,) * 10),
        poisoned=Timing(samples_us=(10.0,) * 10),
        repetition=Repetition(
            new=Timing(samples_us=(10.0,) * 10), known=Timing(samples_us=(10.0,) * 10), elements=1000
        ),
    ),
    "sanitizers": (Sanitized(tool="address", skipped="a toy"),),
    "environment": {"separation": "none"},
}
"""Evidence of a confirmation on a CPU, without the samples."""


def toy_time_us(config: Config) -> float:
    """Return a synthetic time in µs, whose minimum is 10 µs at BLOCK=8, UNROLL=2."""
    block, unroll = int(config["BLOCK"]), int(config["UNROLL"])
    return 10.0 + abs(block - 8) + 3 * abs(unroll - 2)


def timing(time_us: float, count: int = 10) -> Timing:
    """Return deterministic samples that differ from `time_us` by at most 0.2 %."""
    return Timing(samples_us=tuple(time_us * (1 + 0.001 * (index % 5 - 2)) for index in range(count)))


def measured(config: Config) -> Outcome:
    return Measured(timing=timing(toy_time_us(config)))


def answer(lease: Lease, outcome: Outcome | None = None) -> Report:
    """Return the report of a correct worker on a toy kernel."""
    match lease.job:
        case Evaluate(config=config):
            return EvaluateReport(outcome=outcome or measured(config), stages=Stages(compile_s=0.001, overhead_s=0.002))
        case Baseline():
            return BaselineReport(timings={"plain": timing(40.0), "library": timing(20.0)})
        case Confirm(challenger=challenger, incumbent=incumbent):
            beside = timing(20.0) if incumbent is None else timing(toy_time_us(incumbent))
            repetition = PROOF["overwrite_check"].repetition
            repeat = Repeat(challenger=timing(toy_time_us(challenger)), other=beside, repetition=repetition)
            further = lease.terms.policy.confirm_processes - 1
            return ConfirmReport(
                challenger=timing(toy_time_us(challenger)),
                challenger_again=timing(toy_time_us(challenger)),
                incumbent=None if incumbent is None else timing(toy_time_us(incumbent)),
                baselines={"library": timing(20.0)},
                repeats=(repeat,) * further,
                repeated_against=("library" if incumbent is None else "incumbent") if further else None,
                **PROOF,
            )
        case Ablate(champion=champion, changed=changed):
            own = timing(toy_time_us(champion))
            return AblateReport(
                changes=tuple(
                    Ablated(champion=own, champion_again=own, changed=timing(toy_time_us(each))) for each in changed
                ),
                stages=Stages(measure_s=2.0),
            )


@dataclass
class Stage:
    """A service without HTTP, with a manual clock. `restart` acts like kill -9 and the start of a new process."""

    location: Location | Path
    lease_s: float = 60.0
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    woken: int = 0
    lost_s: float = 0.0
    database: Database = field(init=False)
    conductor: Conductor = field(init=False)

    def __post_init__(self) -> None:
        prepared(self.location)
        self.open()

    def open(self) -> None:
        self.database = Database.open(self.location)
        self.conductor = Conductor(
            self.database, lease_s=self.lease_s, clock=lambda: self.now, on_work=self._wake, lost_s=lambda: self.lost_s
        )
        self.conductor.start()

    def _wake(self) -> None:
        self.woken += 1

    def restart(self) -> None:
        self.database.close()
        self.open()

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def interrupt(self, seconds: float) -> None:
        """Advance the clock while the service does not run. With negative `seconds`, set the clock back."""
        self.wait(seconds)
        self.lost_s += seconds

    def register_family(self, document: Mapping[str, Any] = TOY, digest: str = DIGEST) -> None:
        with self.database.write() as session:
            Archive(session).register_family(
                digest=digest, name=document["name"], document=dict(document), location=None, now=self.now
            )

    def register_worker(self, worker_id: str = "w1", *devices: Device) -> None:
        self.conductor.register_worker(worker_id, name=worker_id, host="here", devices=devices or [DEVICE])

    def submit(self, **terms: Any) -> int:
        """Submit a search of the toy family, register a worker for it, and return the search's id."""
        self.register_family()
        self.register_worker()
        given = {"family_digest": DIGEST, "strategy": "random", "policy": QUICK, **terms}
        return self.conductor.orders.submit(SearchRequest.model_validate(given))

    def claim(self, worker_id: str = "w1", count: int = 1) -> list[Lease]:
        reply: LeaseReply = self.conductor.claim(worker_id, DEVICE.uuid, count)
        return reply.leases

    def one(self, worker_id: str = "w1") -> Lease:
        (lease,) = self.claim(worker_id)
        return lease

    def hand_in(self, lease: Lease, outcome: Outcome | None = None, *, binary: str | None = None) -> None:
        """Report the result of a job. `binary` is the digest of a trial's binary."""
        report = answer(lease, outcome)
        if isinstance(report, EvaluateReport):
            report = replace(report, binary_digest=binary)
        self.conductor.report(lease.attempt_id, lease.token, report)

    def play(self, leases: int = 1000) -> Iterator[Lease]:
        """Claim and report at most `leases` jobs, one at a time, like a correct worker. Yield each finished lease."""
        for _ in range(leases):
            claimed = self.claim()
            if not claimed:
                return
            self.hand_in(claimed[0])
            yield claimed[0]

    def view(self, search_id: int) -> SearchView:
        with self.database.read() as session:
            return search_view(session, search_id, self.now)

    def trials(self, search_id: int) -> tuple[TrialView, ...]:
        with self.database.read() as session:
            return trial_views(session, Archive(session).trials(search_id))

    def champions(self) -> list[ChampionRow]:
        with self.database.read() as session:
            return list(Champions(session).champions(current_only=False))


def policy(**fields: Any) -> dict[str, Any]:
    """Return a request's policy: default values with few samples, overridden by `fields`."""
    assert set(fields) <= set(vars(Policy()))
    return {**QUICK, **fields}
