"""The ladder every candidate climbs: build, verify, quick gate; and the two jobs that only time.

A slot drives it with leases; `workers.climb` without a service, by the same steps.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from evo.device import DeviceKind
from evo.job import (
    Baseline,
    BaselineReport,
    Confirm,
    ConfirmReport,
    Evaluate,
    EvaluateReport,
    Job,
    Report,
    Sanitized,
    SearchTerms,
    Stages,
)
from evo.outcome import CaseError, Impossible, LaunchFailed, Measured, Outcome, Pruned
from evo.roofline import device_roofline
from evo.timing import Timing
from evo.trial import Config
from workers.build import Builder, Built
from workers.cache import Cache
from workers.child import Child
from workers.devices import driver
from workers.families import Assignment
from workers.protocol import Compare, Compared, Measure, Sampled, Save, Saved, Verified, Verify
from workers.runners import CandidateFault, Runners, TroubleError, ask
from workers.sanitizers import Subject
from workers.scratch import scratch

Side: TypeAlias = Literal["challenger", "incumbent"]
Role: TypeAlias = Literal["candidate", "challenger", "incumbent"]
Preparation: TypeAlias = Mapping[Role, Built]

_OTHER_SHARE = 4
"""The cache mode that does not rank gets this fraction of the quick gate's samples."""

_BUDGET_SHARE = 0.8
"""Of the measuring time limit, what interleaved rounds may plan with."""


class Stopwatch:
    """Seconds by stage, as they come about."""

    def __init__(self, *built: Built) -> None:
        self.stages = Stages(
            render_s=sum(each.render_s for each in built), compile_s=sum(each.compile_s for each in built)
        )

    @contextmanager
    def stage(self, name: Literal["verify_s", "measure_s"]) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.stages = replace(self.stages, **{name: getattr(self.stages, name) + time.perf_counter() - begun})


class Performer(Protocol):
    """Does jobs on one device. `prepare` is called from several threads, `interrupt` from any, the rest from one."""

    def prepare(self, work: Assignment, job: Job) -> Preparation:
        """Everything a job needs that needs no device."""
        ...

    def perform(self, work: Assignment, job: Job, built: Preparation) -> Report:
        """The job itself; the caller holds the device. A bad candidate is an outcome, never an exception.

        Raises:
            UnfitError: the device is at fault, so nothing was judged.
        """
        ...

    def prove(self, work: Assignment) -> None:
        """Have a known kernel succeed on the device, after something crashed there; the caller holds the device.

        Raises:
            UnfitError: it does not.
            TroubleError: the family does not open any more.
        """
        ...

    def interrupt(self) -> None:
        """Kill what runs on the device now; its job ends as if it had crashed."""
        ...

    def close(self) -> None: ...


class Ladder:
    """Takes candidates up the ladder on one kind of device. `build` may run in several threads, the rest in one.

    Args:
        folder: the worker's cache.
        place: for files of this process.
        raise_trouble: raise a `TroubleError` when the family or the machine is at fault, where a slot needs an outcome.
    """

    def __init__(self, kind: DeviceKind, folder: Path, place: Path, *, raise_trouble: bool = False) -> None:
        self._raise_trouble = raise_trouble
        self._cache = Cache(folder)
        chosen = driver(kind)
        self._sanitizer = chosen.sanitizer()
        self._builder = Builder(chosen.compiler(), self._cache, place)
        self._runners = Runners(folder)

    def prepare(self, work: Assignment, job: Job) -> Preparation:
        """Everything a job needs that needs no device: its configs, built."""
        match job:
            case Evaluate():
                configs: dict[Role, Config | None] = {"candidate": job.config}
            case Confirm():
                configs = {"challenger": job.challenger, "incumbent": job.incumbent}
            case Baseline():
                configs = {}
        return {role: self.build(work, config) for role, config in configs.items() if config is not None}

    def perform(self, work: Assignment, job: Job, built: Preparation) -> Report:
        """The job itself; the caller holds the device."""
        match job:
            case Evaluate():
                return self.evaluate(work, job, built["candidate"])
            case Confirm():
                return self.confirm(work, job, built)
            case Baseline():
                return self.baseline(work)

    def build(self, work: Assignment, config: Config) -> Built:
        """Render and compile one config."""
        return self._builder.build(work, config)

    def evaluate(self, work: Assignment, job: Evaluate, built: Built) -> EvaluateReport:
        """Verify every case, then the quick gate. A runner that saw anything but a time is replaced."""
        watch = Stopwatch(built)
        environment = {f"uncovered case {name}": reason for name, reason in built.uncovered.items()}
        if self._cache.warning is not None:
            environment["cache"] = self._cache.warning
        outcome = built.refusal
        if outcome is None:
            outcome = self._climb(work, job, built, watch, environment)
            if not isinstance(outcome, Measured | Pruned | Impossible):
                with watch.stage("verify_s"):
                    self._runners.drop(work)
        return EvaluateReport(outcome=outcome, stages=watch.stages, binary_digest=built.digest, environment=environment)

    def baseline(self, work: Assignment) -> BaselineReport:
        """Time every baseline, interleaved, in a process of their own."""
        terms, watch = work.terms, Stopwatch()
        request = Compare(series={}, rounds=terms.policy.quick_samples, baselines=True, budget_s=_budget_s(terms))
        try:
            with watch.stage("measure_s"), self._fresh(work) as child:
                compared = _compare(child, request, terms)
        except (CandidateFault, TroubleError) as error:
            return BaselineReport(timings={}, unavailable={"all": str(error)}, stages=watch.stages)
        return BaselineReport(
            timings=compared.baselines,
            unavailable=compared.unavailable,
            stages=watch.stages,
            environment=compared.environment,
        )

    def confirm(self, work: Assignment, job: Confirm, built: Preparation) -> ConfirmReport:
        """Challenger, incumbent, challenger again and baselines in turns: fresh process, fresh inputs."""
        terms, watch = work.terms, Stopwatch(*built.values())
        cases: dict[Role, tuple[CaseError, ...]] = {}
        sides: list[Side] = ["challenger"] if job.incumbent is None else ["challenger", "incumbent"]
        for side in sides:
            if (refusal := built[side].refusal) is not None:
                return ConfirmReport(failure=refusal, failed=side, stages=watch.stages)
        suspect = sides[0]
        series = {"challenger": "challenger", "incumbent": "incumbent", "challenger_again": "challenger"}
        request = Compare(
            series={name: side for name, side in series.items() if side in built},
            rounds=terms.policy.confirm_samples,
            baselines=True,
            budget_s=_budget_s(terms),
        )
        try:
            with self._fresh(work, job.seed) as child:
                for side in sides:
                    suspect = side
                    with watch.stage("verify_s"):
                        cases[side] = _verify(child, terms, side, built[side]).cases
                suspect = sides[0]
                with watch.stage("measure_s"):
                    compared = _compare(child, request, terms)
                with watch.stage("verify_s"):
                    sanitized = self._sanitized(child, work, built["challenger"])
        except (CandidateFault, TroubleError) as error:
            failure = error.outcome if isinstance(error, CandidateFault) else LaunchFailed(reason=str(error))
            return ConfirmReport(failure=failure, failed=suspect, stages=watch.stages)
        left_out = {f"baseline {name}": reason for name, reason in compared.unavailable.items()}
        return ConfirmReport(
            challenger=compared.series["challenger"],
            challenger_again=compared.series["challenger_again"],
            incumbent=compared.series.get("incumbent"),
            baselines=compared.baselines,
            cases=cases["challenger"],
            sanitizers=sanitized,
            stages=watch.stages,
            environment={**compared.environment, **left_out},
        )

    def _sanitized(self, child: Child, work: Assignment, built: Built) -> tuple[Sanitized, ...]:
        """What the device's sanitizer says of a candidate's smallest case; last, for it keeps the cores busy."""
        if self._sanitizer is None:
            return ()
        implementation = work.copy.family.implementation(work.terms.device.kind)
        limit_s = work.terms.policy.verify_timeout_s
        case = min(built.kernels, key=lambda name: sum(each.elements for each in built.kernels[name].arguments))
        with scratch() as folder:
            ask(child, Save(case=case, folder=str(folder)), Saved, stage="verify", limit_s=limit_s)
            subject = Subject(
                source=built.sources[case],
                entry=implementation.entry,
                flags=implementation.flags,
                arguments=built.kernels[case].arguments,
                inputs=folder,
                threads=work.terms.objective.threads,
            )
            return tuple(self._sanitizer.examine(subject, timeout_s=limit_s))

    def prove(self, work: Assignment) -> None:
        """Open the runner that the next trial needs anyway: each proves the device first."""
        self._runners.drop(work)
        self._runners.of(work)

    def interrupt(self) -> None:
        """Kill what runs on the device now, from another thread; its job ends as if it had crashed."""
        self._runners.interrupt()

    def close(self) -> None:
        self._runners.close()

    def _climb(
        self, work: Assignment, job: Evaluate, built: Built, watch: Stopwatch, environment: dict[str, str]
    ) -> Outcome:
        terms = work.terms
        try:
            with watch.stage("verify_s"):
                child = self._runners.of(work)
                verified = _verify(child, terms, "candidate", built)
            with watch.stage("measure_s"):
                sampled = _measure(child, terms, job)
        except CandidateFault as fault:
            return fault.outcome
        except TroubleError as error:
            if self._raise_trouble:
                raise
            return LaunchFailed(reason=str(error))
        environment.update(sampled.environment)
        if sampled.pruned:
            return Pruned(timing=sampled.timing, threshold_us=job.prune_above_us or 0.0)
        measured = Measured(timing=sampled.timing, other=sampled.other, cases=verified.cases, resources=built.resources)
        return _impossible(work, sampled.timing) or measured

    @contextmanager
    def _fresh(self, work: Assignment, *entropy: int) -> Iterator[Child]:
        child = self._runners.fresh(work, *entropy)
        try:
            yield child
        finally:
            child.kill()


def _verify(child: Child, terms: SearchTerms, name: str, built: Built) -> Verified:
    request = Verify(candidate=name, kernels=built.kernels)
    return ask(child, request, Verified, stage="verify", limit_s=terms.policy.verify_timeout_s)


def _measure(child: Child, terms: SearchTerms, job: Evaluate) -> Sampled:
    samples = terms.policy.quick_samples
    request = Measure(
        candidate="candidate",
        samples=samples,
        other_samples=max(1, samples // _OTHER_SHARE),
        prune_above_us=job.prune_above_us,
    )
    return ask(child, request, Sampled, stage="measure", limit_s=terms.policy.measure_timeout_s)


def _compare(child: Child, request: Compare, terms: SearchTerms) -> Compared:
    """Setting up the baselines (imports, copies of the inputs) has as long again as the rounds."""
    return ask(child, request, Compared, stage="measure", limit_s=2 * terms.policy.measure_timeout_s)


def _budget_s(terms: SearchTerms) -> float:
    return _BUDGET_SHARE * terms.policy.measure_timeout_s


def _impossible(work: Assignment, timing: Timing) -> Impossible | None:
    terms, least = work.terms, work.copy.family.work(work.terms.problem)
    limit = device_roofline(terms.device, least, terms.objective) if least else None
    if limit is None or not limit.impossible(timing.median_us):
        return None
    return Impossible(timing=timing, floor_us=limit.floor_us)
