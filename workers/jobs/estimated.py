"""Executes estimate jobs: compiles a config for the target GPU, and estimates the time from the used resources."""

import math
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from evo.device.estimate.estimate import Footprint, estimate
from evo.device.estimate.target import aimed_at
from evo.errors import EvoError
from evo.messages.job import Ablate, Baseline, Confirm, Evaluate, Job
from evo.trial import Config
from evo.trial.outcome import Estimated
from evo.trial.results import BaselineReport, EvaluateReport, Report, Stages
from workers.backends.cuda.compilers.occupancy import blocks_per_sm
from workers.build import Compiler
from workers.build.build import Builder, Built
from workers.build.cache import Cache
from workers.build.effects import Effects
from workers.build.families import Assignment
from workers.jobs.evaluation import Preparation

NOT_RUN = "a search that only estimates times runs no kernels"


class Estimator:
    """A `workers.jobs.evaluation.Performer` that needs no device.

    Args:
        compiler: function that returns the compiler. It is called on demand, because loading a compiler takes time.
        folder: cache folder of the worker.
        place: folder for temporary files of this process.
    """

    def __init__(self, compiler: Callable[[], Compiler], folder: Path, place: Path) -> None:
        self._compiler = compiler
        self._cache = Cache(folder)
        self._place = place
        self._making = threading.Lock()
        self._made: Builder | None = None
        self._effects = Effects(compiler, self._cache)

    def prepare(self, work: Assignment, job: Job) -> Preparation:
        if isinstance(job, Baseline):
            self._effects.warnings(aimed(work))
        return {"candidate": self._builder().build(aimed(work), job.config)} if isinstance(job, Evaluate) else {}

    def perform(self, work: Assignment, job: Job, built: Preparation) -> Report:
        match job:
            case Evaluate():
                report = _evaluate(aimed(work), job.config, built["candidate"])
                warning = self._cache.warning
                return report if warning is None else replace(report, environment={"cache": warning})
            case Baseline():
                warnings = self._effects.warnings(aimed(work))
                return BaselineReport(timings={}, unavailable={"all": NOT_RUN}, warnings=warnings)
            case Confirm() | Ablate():
                raise EvoError(f"{NOT_RUN}, so no trial can be confirmed")

    def _builder(self) -> Builder:
        with self._making:
            if self._made is None:
                self._made = Builder(self._compiler(), self._cache, self._place)
            return self._made

    def prove(self, work: Assignment) -> None:
        """Do nothing, because there is no device to check."""

    def begin(self) -> None:
        """Do nothing, because there is no interruption to clear: `interrupt` has no effect."""

    def interrupt(self) -> None:
        """Do nothing, because estimates are short."""

    def close(self) -> None:
        """Do nothing, because no resource is open."""


def aimed(work: Assignment) -> Assignment:
    """Return the assignment with the target GPU as its device."""
    terms = work.terms
    return replace(work, terms=replace(terms, device=aimed_at(terms.device, terms.objective)))


def _evaluate(work: Assignment, config: Config, built: Built) -> EvaluateReport:
    stages = Stages(render_s=built.render_s, compile_s=built.compile_s)
    if built.refusal is not None:
        return EvaluateReport(outcome=built.refusal, stages=stages)
    terms = work.terms
    guess = estimate(
        work.copy.family.work(terms.problem), terms.device, _footprint(work, config, built), terms.objective
    )
    outcome = Estimated(
        time_us=guess.time_us, resources=built.resources, parts=guess.parts, mechanisms=built.mechanisms
    )
    return EvaluateReport(outcome=outcome, stages=stages, binary_digest=built.digest)


def _footprint(work: Assignment, config: Config, built: Built) -> Footprint:
    terms = work.terms
    candidate = work.copy.family.candidate(config, terms.problem, terms.device, terms.objective)
    launch, used = candidate.launch, built.resources
    if launch is None:
        raise EvoError("family.toml has no table [cuda.launch]; add it, because a CUDA kernel requires it")
    threads = math.prod(launch.block)
    registers, shared = int(used.get("registers", 0)), int(used.get("shared_memory_bytes", 0))
    return Footprint(
        blocks=math.prod(launch.grid),
        items=candidate.items or math.prod(launch.grid),
        threads=candidate.computing or threads,
        blocks_per_sm=max(1, blocks_per_sm(registers, shared, threads, terms.device.limits)),
        spill_bytes=int(used.get("spill_bytes", 0)),
        effort=candidate.effort,
    )
