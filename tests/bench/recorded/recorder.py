"""Measures all configs of reduced spaces on one device.

Configs are built in advance on all cores, so that the device does not wait for builds.
"""

import json
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from evo.device import Device
from evo.messages.job import FamilyRef, SearchTerms
from evo.promotion.policy import Policy
from evo.space import Space
from evo.trial import Config
from evo.trial.objective import PROTOCOL_VERSION, Objective
from evo.trial.outcome import CompileFailed, Measured, Outcome
from templates.registry import find
from tests.bench.recorded.reduced import Reduced
from workers.build.build import Builder, Built
from workers.build.families import Assignment, Families
from workers.measure.checks.output import refusal
from workers.runner.pool import CandidateFault, Runners, UnfitError, ask
from workers.runner.protocol import Compare, Compared, Verified, Verify

ROUNDS = 3
"""Number of samples of a config. Each sample is the lower quartile of timings within 5 ms, after a warm-up of 10 ms."""

LONGEST_LOG = 300
"""Maximum number of stored characters of a compiler's error message."""

MOST_TROUBLE = 5
"""Recording ends after this number of consecutive runners that failed on a known-good kernel."""

POLICY = Policy(name="recording", seeds=1, verify_timeout_s=20.0, measure_timeout_s=20.0)
OUTCOMES: TypeAdapter[Outcome] = TypeAdapter(Outcome)


@dataclass(frozen=True, kw_only=True)
class Line:
    """Result of one config, stored as a line of a recording."""

    config: Config
    outcome: Outcome
    compile_s: float
    verify_s: float
    benchmark_s: float

    def text(self) -> str:
        outcome = self.outcome
        if isinstance(outcome, CompileFailed):
            outcome = replace(outcome, log=outcome.log[:LONGEST_LOG])
        costs = {name: round(getattr(self, name), 4) for name in ("compile_s", "verify_s", "benchmark_s")}
        document = {"config": dict(self.config), "outcome": OUTCOMES.dump_python(outcome, mode="json"), **costs}
        return json.dumps(document, separators=(",", ":"))

    @classmethod
    def read(cls, text: str) -> "Line":
        document = json.loads(text)
        return cls(**{**document, "outcome": OUTCOMES.validate_python(document["outcome"])})


class Record:
    """Recording of one reduced space, in a file: a header with space and device, then a line for each measured config.

    Args:
        seed: seed of the order of configs, which is random so that an interrupted recording is a random subset of the
            space.
        scratch: folder for sources and binaries of this process.
        cache: the worker's cache folder.
    """

    def __init__(self, reduced: Reduced, device: Device, *, path: Path, seed: int, scratch: Path, cache: Path) -> None:
        self.reduced, self.device, self.path, self._seed = reduced, device, path, seed
        package = find(reduced.family)
        terms = SearchTerms(
            search_id=0,
            family=FamilyRef(name=package.family.name, digest=package.digest, location=package.location),
            problem=package.family.problem(reduced.problem, device.kind),
            device=device,
            objective=Objective(),
            policy=POLICY,
            seed=seed,
        )
        self.space: Space = reduced.space(package.family, device)
        self.work = Assignment(terms=terms, copy=Families(scratch / "families").add(package), timed_only=True)
        self._runners = Runners(cache)

    @cached_property
    def header(self) -> Mapping[str, Any]:
        """Return the content of the file's first line."""
        return {
            "name": self.reduced.name,
            "family": self.reduced.family,
            "problem": self.reduced.problem,
            "device": self.device.model,
            "architecture": self.device.architecture,
            "software": dict(self.device.software),
            "limits": dict(self.device.limits),
            "protocol": PROTOCOL_VERSION,
            "rounds": ROUNDS,
            "cases": [case.case.name for case in self.work.cases],
            "valid_configs": self.space.valid_count,
            "order_seed": self._seed,
        }

    def due(self) -> list[Config]:
        """Return the configs that are not yet recorded, in random order. The file is created if it is missing."""
        done: set[str] = set()
        if self.path.exists():
            lines = self.path.read_text().splitlines()[1:]
            done = {self.space.key(Line.read(line).config) for line in lines}
        else:
            self.path.write_text(json.dumps(self.header, separators=(",", ":")) + "\n")
        rows = np.random.default_rng(self._seed).permutation(self.space.indices)
        configs = map(self.space.decode, rows)
        return [config for config in configs if self.space.key(config) not in done]

    def measure(self, config: Config, built: Built) -> Line:
        """Verify a config on the timed inputs, time it, and append its line.

        Raises:
            UnfitError: a known-good kernel fails on the device.
        """
        begun = time.perf_counter()
        verify_s = 0.0
        outcome = built.refusal
        if outcome is None:
            try:
                child = self._runners.of(self.work)
                limit_s = POLICY.verify_timeout_s
                verify = Verify(candidate="candidate", kernels=built.kernels, launches=1)
                verified = ask(child, verify, Verified, stage="verify", limit_s=limit_s)
                verify_s = time.perf_counter() - begun
                request = Compare(series={"time": "candidate"}, rounds=ROUNDS, baselines=False, budget_s=limit_s)
                compared = ask(child, request, Compared, stage="measure", limit_s=POLICY.measure_timeout_s)
                outcome = refusal(compared.answers["candidate"]) or Measured(
                    timing=compared.series["time"], cases=verified.cases, resources=built.resources
                )
            except CandidateFault as fault:
                outcome = fault.outcome
                self._runners.drop(self.work)
        line = Line(
            config=config,
            outcome=outcome,
            compile_s=built.render_s + built.compile_s,
            verify_s=verify_s,
            benchmark_s=time.perf_counter() - begun - verify_s,
        )
        with self.path.open("a") as file:
            file.write(line.text() + "\n")
        built.discard()
        return line

    def close(self) -> None:
        self._runners.close()


def record(records: Sequence[Record], builder: Builder, *, jobs: int, until_s: float) -> int:
    """Measure remaining configs until the monotonic clock reaches `until_s`. Return the number of measured configs.

    Spaces take turns in proportion to their remaining configs, so that all of them are complete at about the same time.
    """
    measured, trouble = 0, 0
    ahead: deque[tuple[Record, Config, Future[Built]]] = deque()
    turns = in_turns({place: each.due() for place, each in enumerate(records)})
    pool = ThreadPoolExecutor(jobs)
    try:
        while time.monotonic() < until_s:
            while len(ahead) < 4 * jobs and (turn := next(turns, None)) is not None:
                place, config = turn
                ahead.append((records[place], config, pool.submit(builder.build, records[place].work, config)))
            if not ahead:
                break
            whose, config, built = ahead.popleft()
            try:
                whose.measure(config, built.result())
                measured, trouble = measured + 1, 0
            except UnfitError:
                trouble += 1
                if trouble >= MOST_TROUBLE:
                    raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for each in records:
            each.close()
    return measured


def in_turns(due: Mapping[int, Sequence[Config]]) -> Iterator[tuple[int, Config]]:
    """Yield each config of all lists with the key of its list. The lists are interleaved evenly."""
    shares = [
        ((position + 0.5) / len(configs), place, position)
        for place, configs in due.items()
        for position in range(len(configs))
    ]
    for _, place, position in sorted(shares):
        yield place, due[place][position]
