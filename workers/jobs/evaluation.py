"""Executes jobs on a device: builds, verifies and times candidates, and times baselines.

The *quick gate* is the short timing of a candidate after its verification. It ranks the trials of a search.
Confirmations and ablations are passed to their own modules.

A slot uses this module for leased jobs, and `workers.jobs.single` uses it without a service.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np

from evo.client import Client
from evo.device import DeviceKind
from evo.device.estimate.roofline import device_roofline
from evo.errors import EvoError
from evo.lru_cache import LruCache
from evo.messages.job import Ablate, Baseline, Confirm, Evaluate, Job, Lease, SearchTerms
from evo.promotion import Rule, judge
from evo.promotion.bars import bars
from evo.trial import Config
from evo.trial.explain import detail_text, headline
from evo.trial.outcome import Impossible, Measured, Outcome, Pruned
from evo.trial.results import AblateReport, BaselineReport, ConfirmReport, EvaluateReport, Report
from evo.trial.timing import Bars, Timing
from workers.backends import driver
from workers.build.build import Builder, Built
from workers.build.cache import Cache
from workers.build.effects import Effects
from workers.build.families import Assignment
from workers.build.other_shape import with_shape_advice
from workers.jobs.ablation import Ablation
from workers.jobs.confirmation import Confirmation, Instruments, Side, budget_s, compare, overlaps, prepare_first
from workers.jobs.stopwatch import Status, Stopwatch
from workers.runner.child import Ahead, Child
from workers.runner.killed import undisturbed
from workers.runner.plan import imports
from workers.runner.pool import SPARE_THREADS, CandidateFault, Runners, TroubleError, ask, outcome_of
from workers.runner.protocol import Compare, Measure, Sampled, Verified, Verify

Preparation: TypeAlias = Mapping[str, Built]
"""Builds by role: ``candidate``, ``challenger``, ``incumbent``, ``champion``, or the index of a config in
`Ablate.changed`, e.g. ``0``.
"""

BASELINE_S = 10.0
"""Approximate maximum duration in seconds of timing the baselines at the start of a search."""

_ABOUT_TIMES = ("work", "inputs")
"""Names of the rules that compare times of calls, and may therefore fail by chance."""

_OTHER_SHARE = 4
"""In the cache mode that the objective does not use, the quick gate divides the number of samples by this factor."""

_SIDES: tuple[Side, ...] = ("challenger", "incumbent")


class Performer(Protocol):
    """Executes jobs on one device. Only `prepare` and `interrupt` may be called from several threads."""

    def prepare(self, work: Assignment, job: Job) -> Preparation:
        """Do the part of a job that needs no device, and return the builds."""
        ...

    def perform(self, work: Assignment, job: Job, built: Preparation) -> Report:
        """Execute the job.

        The caller must have locked the device, unless the builds in `built` failed, so that no kernel will run. A bad
        candidate results in an outcome, never in an exception.

        Raises:
            UnfitError: the device is faulty, so the candidate has no outcome.
            MachineExhausted: the disk of this machine is full, over a quota, read-only or mounted ``noexec``.
            GaveUp: the job was interrupted.
        """
        ...

    def prove(self, work: Assignment) -> None:
        """Run a known-good kernel after a crash. The caller must have locked the device.

        Raises:
            UnfitError: the known-good kernel fails.
            TroubleError: the family's reference.py fails.
            GaveUp: the job was interrupted.
        """
        ...

    def begin(self) -> None:
        """Prepare for the next job: clear an earlier `interrupt`."""
        ...

    def interrupt(self) -> None:
        """Kill the processes of the running job, and prevent new ones. The job raises GaveUp, or reports a crash."""
        ...

    def close(self) -> None: ...


class Evaluator:
    """A `Performer` for devices that run kernels.

    Args:
        folder: cache folder of the worker.
        place: folder for temporary files of this process.
        status: object that receives the current step of a long job.
        raise_trouble: True to raise a `TroubleError` if the family or the machine is at fault. False to return an
            outcome instead.
    """

    def __init__(
        self, kind: DeviceKind, folder: Path, place: Path, *, status: Status | None = None, raise_trouble: bool = False
    ) -> None:
        self._raise_trouble = raise_trouble
        self._cache = Cache(folder)
        chosen = driver(kind)
        compiler = chosen.compiler()
        self._modules = chosen.modules
        self._builder = Builder(compiler, self._cache, place)
        self._effects = Effects(lambda: compiler, self._cache)
        self._runners = Runners(folder)
        self._overlaps = overlaps(kind)
        self._begun: set[str] = set()
        self._performing = False
        # by `SearchTerms.key`: the time of the fastest kernel that this process has measured; at first an empty list
        self._kernels_us: LruCache[str, list[float]] = LruCache(SEARCHES)
        self._beginning = threading.Lock()
        self._status = status or Status()
        self._instruments = Instruments(
            runners=self._runners, sanitizer=chosen.sanitizer(), profiler=chosen.profiler(), status=self._status
        )

    def stand_by(self) -> None:
        """Start a runner before the first job, because importing libraries takes most of a second."""
        self._runners.stand_by(self._modules)

    def prepare(self, work: Assignment, job: Job) -> Preparation:
        """Return the builds of a job's configs. For a baseline job, also collect warnings about the family.

        If the runner of an evaluation, or the first runner of a confirmation or baseline job, was started in advance on
        a GPU, also wait until this runner has computed its expected outputs. Later, the job has locked the GPU, so the
        runner could not use it.
        """
        first: Ahead | None = None
        match job:
            case Evaluate():
                self._prepare_runner(work)
                configs: dict[str, Config | None] = {"candidate": job.config}
            case Confirm():
                if self._overlaps:
                    first = prepare_first(self._runners, work, job)
                self._start_runner(work)
                configs = {"challenger": job.challenger, "incumbent": job.incumbent}
            case Ablate():
                configs = {"champion": job.champion, **{str(index): each for index, each in enumerate(job.changed)}}
            case Baseline():
                if self._overlaps:
                    first = self._runners.prepare(replace(work, timed_only=True), modules=self._imports(work))
                self._start_runner(work)
                self._effects.warnings(work)
                configs = {}
        present = {role: config for role, config in configs.items() if config is not None}
        built = {role: self.build(work.built_as(role), config) for role, config in present.items()}
        if first is not None:
            first.wait()
        elif self._overlaps and isinstance(job, Evaluate):
            self._runners.await_next(work)
        return built

    def perform(self, work: Assignment, job: Job, built: Preparation) -> Report:
        """Execute a job. See `Performer.perform`."""
        with self._undisturbed_by_preparations():
            match job:
                case Evaluate():
                    return self.evaluate(work, job, built["candidate"])
                case Confirm():
                    return self.confirm(work, job, built)
                case Ablate():
                    return self.ablate(work, job, built)
                case Baseline():
                    return replace(self.baseline(work), warnings=self._effects.warnings(work))

    def _prepare_runner(self, work: Assignment) -> None:
        """Start a runner that computes the expected outputs of a new search, unless this disturbs a measurement.

        The runner works while the first candidate is compiled.
        """
        with self._beginning:
            begun = work.terms.key in self._begun
            self._begun.add(work.terms.key)
            if not begun and (self._overlaps or not self._performing):
                self._runners.prepare(work, keeps_memory=True)

    def _start_runner(self, work: Assignment) -> None:
        """Start a standby runner for the first process of a job, unless this disturbs a measurement.

        It is started only if the runners of the search need `SPARE_THREADS` threads, and only on devices whose
        expected outputs are not computed in advance (see `overlaps`).
        """
        with self._beginning:
            if not self._overlaps and not self._performing and work.terms.objective.threads == SPARE_THREADS:
                self.stand_by()

    @contextmanager
    def _undisturbed_by_preparations(self) -> Iterator[None]:
        """Context manager: `prepare` starts no runner while a job runs inside the `with` block.

        First wait until the runners that `prepare` has started are idle. On devices whose measurements these runners do
        not disturb (see `overlaps`), do not wait, and let `prepare` start runners.
        """
        with self._beginning:
            self._performing = True
        try:
            if not self._overlaps:
                self._runners.settle()
                self._runners.await_prepared()
            yield
        finally:
            self._performing = False

    def build(self, work: Assignment, config: Config) -> Built:
        """Render and compile one config for every case."""
        return self._builder.build(work, config)

    def evaluate(self, work: Assignment, job: Evaluate, built: Built) -> EvaluateReport:
        """Verify every case, run the quick gate, and return the report. If the candidate fails, end its runner."""
        return undisturbed(lambda: self._evaluate(work, job, built))

    def _evaluate(self, work: Assignment, job: Evaluate, built: Built) -> EvaluateReport:
        watch = Stopwatch(built)
        environment = {} if self._cache.warning is None else {"cache": self._cache.warning}
        outcome = built.refusal
        if outcome is None:
            outcome, sampled_in = self._verify_and_time(work, job, built, watch)
            environment |= sampled_in
            if work.copy.family.variant is None:  # authors of variants do not see the shapes of hidden cases
                outcome = with_shape_advice(outcome, work.cases)
            if not isinstance(outcome, Measured | Pruned | Impossible):
                with watch.stage("verify_s"):
                    self._runners.drop(work)
        return EvaluateReport(
            outcome=outcome,
            stages=watch.stages,
            binary_digest=built.digest,
            uncovered=built.uncovered,
            environment=environment,
        )

    def trouble(self, work: Assignment) -> str | None:
        """Return the reason why no runner can be opened, e.g. an error in reference.py, or None."""
        try:
            self._runners.of(work)
        except TroubleError as error:
            return str(error)
        return None

    def doubt(self, work: Assignment) -> str | None:
        """Return a reason to doubt the time of the kernel that was just measured; None if there is none.

        The kernel may skip work in timed calls, or compute wrong outputs in repeated calls. A rule about times may fail
        by chance on a busy machine, so such a rule must fail twice.
        """
        try:
            rule = self._refuting(work)
            if rule is not None and rule.name in _ABOUT_TIMES:
                rule = self._refuting(work)
        except CandidateFault as fault:
            self._runners.drop(work)
            return headline(detail_text(fault.outcome))
        return None if rule is None else rule.text.replace("The challenger", "The kernel")

    def _refuting(self, work: Assignment) -> Rule | None:
        """Time the last measured kernel again. Return a rule that refutes its earlier time; None if there is none."""
        policy = work.terms.policy
        request = Compare(
            series={"challenger": "candidate", "challenger_again": "candidate"},
            rounds=policy.quick_samples,
            baselines=False,
            budget_s=min(BASELINE_S, budget_s(work)),
            overwrite_check="challenger",
            policy=policy,
        )
        found = compare(self._runners.of(work), request, work)
        report = ConfirmReport(
            challenger=found.series["challenger"],
            challenger_again=found.series["challenger_again"],
            overwrite_check=found.overwrite_check,
            answers=found.answers["candidate"],
        )
        return judge(report, policy, 1, np.random.default_rng(0)).refuting

    def baseline(self, work: Assignment) -> BaselineReport:
        """Time all baselines in interleaved rounds in a fresh process, and return the report."""
        return undisturbed(lambda: self._baseline(work))

    def _baseline(self, work: Assignment) -> BaselineReport:
        terms, watch = work.terms, Stopwatch()
        budget = min(BASELINE_S, budget_s(work))
        request = Compare(
            series={}, rounds=terms.policy.quick_samples, baselines=True, budget_s=budget, policy=terms.policy
        )
        try:
            self._status.say("running reference.py")
            with watch.stage("measure_s"), self._fresh_for_baselines(work) as child:
                self._status.say("preparing and timing the baselines")
                compared = compare(child, request, work)
        except (CandidateFault, TroubleError) as error:
            missing = {"all": str(error)}
            return BaselineReport(timings={}, unavailable=missing, failure=outcome_of(error), stages=watch.stages)
        return BaselineReport(
            timings=compared.baselines,
            unavailable=compared.unavailable,
            stages=watch.stages,
            environment=compared.environment,
        )

    def confirm(self, work: Assignment, job: Confirm, built: Preparation) -> ConfirmReport:
        """Execute a confirmation job. See `workers.jobs.confirmation`."""
        sides: dict[Side, Built] = {side: built[side] for side in _SIDES if side in built}
        return undisturbed(lambda: Confirmation(self._instruments, work, job, sides).report())

    def ablate(self, work: Assignment, job: Ablate, built: Preparation) -> AblateReport:
        """Execute an ablation job. See `workers.jobs.ablation`."""
        return undisturbed(lambda: Ablation(self._runners, self._status, work, job, built).report())

    def prove(self, work: Assignment) -> None:
        """End the search's runner, and open a new one for the next trial. To be opened, it runs a known-good kernel."""
        self._runners.drop(work)
        self._runners.of(work)

    def begin(self) -> None:
        """Prepare for the next job: clear an earlier `interrupt`."""
        self._runners.interruption.forget()

    def interrupt(self) -> None:
        """Kill the runner, compiler, sanitizer or profiler of the job, and prevent new ones. Thread-safe."""
        self._runners.interrupt()

    def close(self) -> None:
        self._runners.close()

    def _verify_and_time(
        self, work: Assignment, job: Evaluate, built: Built, watch: Stopwatch
    ) -> tuple[Outcome, Mapping[str, str]]:
        """Return the outcome and, if samples were taken, facts about the machine during sampling."""
        terms, limits = work.terms, self._bars(work, job)
        try:
            with watch.stage("verify_s"):
                self._status.say("running reference.py")
                child = self._runners.of(work)
                self._status.say("verifying")
                verified = _verify(child, terms, built, limits)
            self._status.say("timing")
            with watch.stage("measure_s"):
                sampled = _measure(child, terms, limits)
        except (CandidateFault, TroubleError) as error:
            if self._raise_trouble and isinstance(error, TroubleError):
                raise
            return outcome_of(error), {}
        if sampled.pruned:
            return Pruned(timing=sampled.timing, threshold_us=limits.prune_us or 0.0), sampled.environment
        measured = Measured(
            timing=sampled.timing,
            other=sampled.other,
            cases=verified.cases,
            resources=built.resources,
            mechanisms=built.mechanisms,
        )
        if (impossible := _impossible(work, sampled.timing)) is not None:
            return impossible, sampled.environment
        kernels_us = self._kernels_us.get(terms.key, list)
        kernels_us[:] = [min([*kernels_us, sampled.timing.median_us])]
        return measured, sampled.environment

    def _bars(self, work: Assignment, job: Evaluate) -> Bars:
        """Return the times above which a trial counts as slow.

        The job contains these times, unless its trial was proposed before the first result of the search. In this case,
        the times of kernels that this worker has measured are used.
        """
        if job.bars != Bars():
            return job.bars
        terms = work.terms
        by_time = terms.objective.metric is None and terms.objective.second_metric is None
        return bars(terms.policy, self._kernels_us.get(terms.key, list), by_time=by_time)

    def _imports(self, work: Assignment) -> tuple[str, ...]:
        """Return the modules that a runner for baselines imports in advance; empty without `overlaps`."""
        return imports(work, baselines=True) if self._overlaps else ()

    @contextmanager
    def _fresh_for_baselines(self, work: Assignment) -> Iterator[Child]:
        child = self._runners.fresh(replace(work, timed_only=True), modules=self._imports(work))
        try:
            yield child
        finally:
            child.kill()


def _verify(child: Child, terms: SearchTerms, built: Built, bars: Bars) -> Verified:
    request = Verify(
        candidate="candidate",
        kernels=built.kernels,
        deferred=bars.shorten_us is not None,
        hopeless_us=bars.hopeless_us,
        cold_ahead=bars == Bars(),
    )
    return ask(child, request, Verified, stage="verify", limit_s=terms.policy.verify_timeout_s)


def _measure(child: Child, terms: SearchTerms, bars: Bars) -> Sampled:
    samples = terms.policy.quick_samples
    request = Measure(
        candidate="candidate",
        samples=samples,
        other_samples=max(1, samples // _OTHER_SHARE),
        bars=bars,
    )
    return ask(child, request, Sampled, stage="measure", limit_s=terms.policy.measure_timeout_s)


def _impossible(work: Assignment, timing: Timing) -> Impossible | None:
    terms, least = work.terms, work.copy.family.work(work.terms.problem)
    limit = device_roofline(terms.device, least, terms.objective) if least else None
    if limit is None or not limit.impossible(timing.median_us):
        return None
    return Impossible(timing=timing, floor_us=limit.floor_us)


SEARCHES = 32
"""Maximum number of searches whose reports are kept in memory. For other searches, the service is queried."""


@dataclass
class _Search:
    reports: dict[str, EvaluateReport] = field(default_factory=dict)
    expected: set[int] = field(default_factory=set)


class Duplicates:
    """Finds the report of an earlier trial with the same binary, so that a search measures each binary only once.

    Reports of this process are in memory, and reports of other workers are requested from the service.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._searches: LruCache[str, _Search] = LruCache(SEARCHES)

    def expect(self, lease: Lease) -> None:
        """Record that this process measures the trial of a lease."""
        if isinstance(lease.job, Evaluate):
            self._of(lease.terms).expected.add(lease.job.number)

    def find(self, lease: Lease, digest: str) -> EvaluateReport | None:
        """Return the report of an earlier trial whose binary has this digest.

        Return None if there is no such trial, or if the request to the service fails. If the search has variants, the
        earlier trial may belong to a different variant.
        """
        if (known := self._of(lease.terms).reports.get(digest)) is not None:
            return known
        if self._measured_all_before(lease):
            return None
        try:
            return self._client.find_duplicate(lease.terms.search_id, digest)
        except EvoError:
            return None

    def note(self, terms: SearchTerms, report: EvaluateReport) -> None:
        if report.binary_digest is not None:
            self._of(terms).reports[report.binary_digest] = report

    def _of(self, terms: SearchTerms) -> "_Search":
        return self._searches.get(terms.key, _Search)

    def _measured_all_before(self, lease: Lease) -> bool:
        """Return True if this process measures all earlier trials of the search, so that no other reports exist.

        The result is False for a search of a variant, because trials of other variants may have the same binary.
        """
        if not isinstance(lease.job, Evaluate) or lease.terms.family.variant:
            return False
        mine = self._of(lease.terms).expected
        return mine.issuperset(range(lease.job.number))
