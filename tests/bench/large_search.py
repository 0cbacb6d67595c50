"""Writes a large search directly into a database, for benchmarks of pages."""

import itertools
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from sqlalchemy import insert
from sqlalchemy.orm import Session

from db.engine.session import Database
from db.models import AttemptRow, JobRow, SearchRow, SpaceSize, TrialRow
from db.repositories.archive import Archive
from db.repositories.fleet import Fleet
from evo.device import Device
from evo.device.estimate.roofline import Roofline
from evo.messages.job import Evaluate
from evo.promotion.policy import Policy
from evo.search.search import Budget
from evo.trial import Config, Proposal
from evo.trial.objective import Objective
from evo.trial.outcome import CompileFailed, Measured, Outcome, Pruned, WrongAnswer
from evo.trial.results import BaselineReport, EvaluateReport, Stages
from evo.trial.timing import Timing

BEGAN = datetime(2026, 3, 1, tzinfo=UTC)
DIGEST = "1a" * 32
BATCH = 2_000
SAMPLES = 40

TUNABLES: dict[str, list[Any]] = {
    "BLOCK_M": [16, 32, 48, 64, 80, 96, 112, 128],
    "BLOCK_N": [16, 32, 48, 64, 80, 96, 112, 128],
    "WARPS": [1, 2, 4, 8, 16],
    "STAGES": [1, 2, 3, 4],
    "VEC": [1, 2, 4, 8],
    "UNROLL": [1, 2, 4, 8],
    "LAYOUT": ["row", "swizzled"],
    "PREFETCH": [False, True],
    "CHUNK": [1, 2, 3, 4, 5, 6, 7, 8],
}

DOCUMENT: dict[str, Any] = {
    "name": "attention",
    "title": "A made-up attention kernel",
    "problem": {"S": {"type": "int", "default": 512, "min": 1, "max": 4096}},
    "arguments": [
        {"name": "x", "role": "input", "shape": ["S"], "dtype": "float32"},
        {"name": "y", "role": "output", "shape": ["S"], "dtype": "float32", "rel_l2": 1e-5, "max_abs": 1e-5},
    ],
    "cases": [{"name": "nominal", "inputs": "normal"}],
    "cuda": {
        "template": "kernel.cu.j2",
        "entry": "attention",
        "tunables": {name: {"values": values} for name, values in TUNABLES.items()},
        "launch": {"grid": ["S"], "block": ["32 * WARPS"], "shared_memory": "0"},
    },
}

Made: TypeAlias = tuple[int, Config, Outcome]
"""A trial: number, config and outcome."""

DEVICE = Device(kind="cuda", model="Imaginary 100", architecture="sm_90", uuid="gpu-0", limits={"sm_count": 100.0})


def fill(database: Database, count: int) -> int:
    """Store a paused search with `count` ended trials, and return its id."""
    with database.write() as session:
        search = _search(session)
        for batch in _batched(count):
            write(session, search, batch)
        return search


def _batched(count: int) -> Iterator[list[Made]]:
    made = trials(count)
    while batch := list(itertools.islice(made, BATCH)):
        yield batch


def _search(session: Session) -> int:
    family = Archive(session).register_family(
        digest=DIGEST, name="attention", document=DOCUMENT, location=None, now=BEGAN
    )
    Fleet(session).register("w1", name="node-1", host="node-1", devices=[DEVICE], now=BEGAN)
    row = SearchRow(
        family=family,
        problem={"S": 512},
        problem_key="S=512",
        device=DEVICE,
        objective=Objective(),
        strategy="portfolio",
        seed=0,
        budget=Budget(minutes=10_000.0),
        policy=Policy(),
        warm_starts=[],
        space=SpaceSize(product_size=8 * 8 * 5 * 4 * 4 * 4 * 2 * 2 * 8, valid_count=655_360),
        roofline=Roofline(floor_us=18.0, bound="memory"),
        baselines=BaselineReport(timings={"library": _timing(np.random.default_rng(0), 61.0)}),
        state="paused",
        created_at=BEGAN,
        started_at=BEGAN,
        active_s=3600.0,
    )
    session.add(row)
    session.flush()
    return row.id


def trials(count: int) -> Iterator[Made]:
    """Yield the first `count` trials of a deterministic sequence."""
    rng = np.random.default_rng(1)
    chosen = rng.permutation(655_360)[:count]
    sizes = [len(values) for values in TUNABLES.values()]
    for number, point in enumerate(chosen.tolist()):
        indices = np.unravel_index(point, sizes)
        config = {name: values[int(index)] for (name, values), index in zip(TUNABLES.items(), indices, strict=True)}
        yield number, config, _outcome(rng, config)


def _outcome(rng: np.random.Generator, config: Config) -> Outcome:
    draw = rng.random()
    if draw < 0.08:
        return CompileFailed(log="kernel.cu(42): error: too many resources requested for launch\n" * 8)
    if draw < 0.14:
        return WrongAnswer(reason="case tail: rel_l2 0.31 of at most 0.01")
    time_us = 22.0 + abs(int(config["BLOCK_M"]) - 64) * 0.3 + abs(int(config["WARPS"]) - 8) * 2.1 + rng.gamma(2.0, 6.0)
    if draw < 0.35:
        return Pruned(timing=_timing(rng, time_us * 2, 5), threshold_us=60.0)
    figures = {"registers": float(rng.integers(32, 255)), "shared_memory_bytes": 1024.0 * float(rng.integers(1, 99))}
    return Measured(timing=_timing(rng, time_us), resources=figures | {"occupancy": 0.5})


def _timing(rng: np.random.Generator, time_us: float, count: int = SAMPLES) -> Timing:
    return Timing(samples_us=tuple((time_us * (1 + 0.01 * rng.standard_normal(count))).tolist()))


def write(session: Session, search: int, batch: Sequence[Made]) -> None:
    """Store trials with their jobs and attempts. The database must contain no other search."""
    rows, jobs, attempts = [], [], []
    for number, config, outcome in batch:
        at = BEGAN + timedelta(milliseconds=36 * number)
        timing = outcome.timing if isinstance(outcome, Measured) else None
        proposal = Proposal(config=config, origin="tpe" if number % 3 else "crossover", parents=(max(0, number - 1),))
        rows.append(
            {
                "id": number + 1,
                "search_id": search,
                "number": number,
                "config_key": ",".join(map(str, config.values())),
                "proposal": proposal,
                "told_before": number,
                "asked_at": at,
                "outcome": outcome,
                "outcome_kind": outcome.kind,
                "time_us": None if timing is None else timing.median_us,
                "finished_seq": number,
                "finished_at": at + timedelta(seconds=1),
                "overhead_ms": 3.0,
                "suspect": False,
            }
        )
        job = {"id": number + 1, "search_id": search, "trial_id": number + 1, "kind": "evaluate", "state": "done"}
        jobs.append(job | {"payload": Evaluate(number=number, config=config), "created_at": at})
        report = EvaluateReport(outcome=outcome, stages=Stages(compile_s=0.4, verify_s=0.1, measure_s=0.2, total_s=0.8))
        attempt = {"id": number + 1, "job_id": number + 1, "token": "t", "worker_id": "w1", "device_uuid": DEVICE.uuid}
        attempts.append(attempt | {"state": "done", "granted_at": at, "expires_at": at, "result": report})
    for table, values in ((TrialRow, rows), (JobRow, jobs), (AttemptRow, attempts)):
        session.execute(insert(table), values)


def made(path: Path, count: int) -> int:
    """Create a database with a paused search of `count` ended trials, and return the search's id."""
    database = Database.open(path)
    try:
        return fill(database, count)
    finally:
        database.close()
