"""Confirmation: times a challenger, the incumbent and the baselines in interleaved rounds, in fresh processes.

If the samples lead to a promotion, the challenger is also examined with sanitizers and a profiler.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock
from types import MappingProxyType
from typing import Literal, TypeAlias

from evo.device import DeviceKind, kind_of
from evo.device.cores import core_numbers
from evo.messages.job import Confirm
from evo.promotion import looks, promising, so_far, undecided
from evo.promotion.goal import Costs, Goal
from evo.promotion.prediction import fastest_baseline
from evo.text.wording import duration_text
from evo.trial.outcome import CaseError, TimedOut
from evo.trial.results import ConfirmReport, OutputChecks, Profiled, Repeat, Sanitized
from workers.backends.tools import Profiler, Sanitizer, Subject
from workers.build.build import Built
from workers.build.families import Assignment
from workers.jobs.sanitized_cases import sanitized
from workers.jobs.stopwatch import Status, Stopwatch
from workers.measure.checks.output import refusal, together
from workers.runner.child import Ahead, Child
from workers.runner.plan import imports
from workers.runner.pool import CandidateFault, Runners, TroubleError, ask, outcome_of
from workers.runner.protocol import Compare, Compared, Save, Saved, Verified, Verify
from workers.system.scratch import scratch

Side: TypeAlias = Literal["challenger", "incumbent"]

SPARE_CORES = 4
"""Minimum number of cores at which one process may compute expected outputs while another process times a GPU."""

PREPARED = 2
"""Number of runners that are started in advance, because importing libraries takes as long as measuring."""

NO_SANITIZER = "this device kind has none"
NOT_WON = "its samples do not lead to a promotion"
_BUDGET_SHARE = 0.8
"""Fraction of the time limit for measuring that interleaved rounds may use."""

_PROFILE_SHARE = 4
"""Time limit of a profiler, as a multiple of the time limit of verification. A profiler repeats a launch many times."""


@dataclass(frozen=True, kw_only=True)
class Instruments:
    """Runners and tools of a confirmation. `sanitizer` and `profiler` are None if the device kind has none."""

    runners: Runners
    sanitizer: Sanitizer | None
    profiler: Profiler | None
    status: Status = field(default_factory=Status)


class Confirmation:
    """Executes one confirmation job. The slot locks the device and calls `report` once."""

    def __init__(self, instruments: Instruments, work: Assignment, job: Confirm, built: Mapping[Side, Built]) -> None:
        self._instruments = instruments
        self._work, self._terms = work, work.terms
        self._job = job
        self._built = built
        self._watch = Stopwatch(*built.values())
        self._sides: list[Side] = ["challenger"] if job.incumbent is None else ["challenger", "incumbent"]
        self._suspect: Side = "challenger"
        self._process, self._so_far = 1, ""
        self._most = self._terms.policy.confirm_processes if job.incumbent is None else looks(self._terms.policy)[-1]

    def report(self) -> ConfirmReport:
        """Measure the challenger, and return the report. Failures of candidates are part of the report.

        Raises:
            UnfitError: the device is faulty.
            MachineExhausted: the disk of this machine is full, over a quota, read-only or mounted ``noexec``.
            GaveUp: the job was interrupted.
        """
        for side in self._sides:
            if (refusal := self._built[side].refusal) is not None:
                self._instruments.runners.discard()
                return ConfirmReport(failure=refusal, failed=side, stages=self._watch.stages)
        try:
            report = self._examined(self._repeated(self._first()))
        except (CandidateFault, TroubleError) as error:
            report = ConfirmReport(failure=outcome_of(error), failed=self._suspect)
        finally:
            self._instruments.runners.discard()
        return replace(report, stages=self._watch.stages, steps=self._watch.steps)

    def _first(self) -> ConfirmReport:
        """Return the report of the first process.

        The process verifies the challenger and the incumbent on every case. It then times two series of the challenger,
        whose difference shows the noise, interleaved with the incumbent and the baselines. If the comparison exceeds
        the time limit, it is repeated without the baselines, because a baseline may hang.
        """
        series = {"challenger": "challenger", "incumbent": "incumbent", "challenger_again": "challenger"}
        request = Compare(
            series={name: side for name, side in series.items() if side in self._built},
            rounds=self._terms.policy.confirm_samples,
            baselines=True,
            budget_s=budget_s(self._work),
            overwrite_check="challenger",
            policy=self._terms.policy,
        )
        try:
            report = self._compared_first(request)
        except CandidateFault as fault:
            if not isinstance(fault.outcome, TimedOut) or fault.outcome.stage != "measure":
                raise
            limit = duration_text(fault.outcome.limit_s)
            missing = {"all": f"with baselines, the comparison exceeded {limit} (2 * measure_timeout_s of the policy)"}
            report = self._compared_first(
                replace(request, baselines=False), missing
            )  # if a kernel caused the failure, it fails again
        return replace(report, resources={side: dict(self._built[side].resources) for side in self._sides})

    def _compared_first(self, request: Compare, missing: Mapping[str, str] = MappingProxyType({})) -> ConfirmReport:
        """Return the report of a comparison in a new process. `missing` contains the reasons for omitted baselines."""
        self._suspect = "challenger"
        self._say(1, "verifying")
        with self._fresh(1) as child:
            cases = {side: self._verify(child, side, launches=3) for side in self._sides}
            self._say(1, "timing")
            compared = self._compare(child, request)
        compared = replace(compared, unavailable={**compared.unavailable, **missing})
        return _report(cases["challenger"], compared, self._built["challenger"].uncovered)

    def _repeated(self, report: ConfirmReport) -> ConfirmReport:
        """Return the report with the comparisons of additional processes.

        Processes are added until the verdict is decided. The additional processes verify the kernels only on the timed
        case. If none is needed, the report is returned unchanged.
        """
        policy, given = self._terms.policy, [report.answers]
        if not undecided(report, policy, self._costs(report)):
            return report
        against = "incumbent" if report.incumbent is not None else fastest_baseline(report)
        report = replace(report, repeated_against=against)
        while undecided(report, policy, self._costs(report)):
            self._so_far = so_far(report, policy)
            repeat, answers = self._repeat(against, len(report.repeats) + 2)
            report, given = replace(report, repeats=(*report.repeats, repeat)), [*given, answers]
        self._so_far = so_far(report, policy)
        return replace(report, answers=together([each for each in given if each is not None]))

    def _costs(self, report: ConfirmReport) -> Costs | None:
        """Return the object that converts times to costs, or None if the search has no metric."""
        work = self._work.copy.family.work(self._terms.problem)
        flops, moved = (None, None) if work is None else (work.flops, work.bytes)
        goal = Goal.of(self._terms.objective, self._terms.problem, flops=flops, moved=moved)
        if goal is None:
            return None
        return Costs.of(goal, report, self._job.challenger, self._job.incumbent)

    def _examined(self, report: ConfirmReport) -> ConfirmReport:
        """Return the report with the results of sanitizers and a profiler.

        Sanitizers run only if the challenger would be promoted according to its samples. The profiler runs only if the
        sanitizers then find no fault.
        """
        runners = self._instruments.runners
        runners.discard()  # end the runners that were prepared for more comparisons
        sanitizer, profiler = self._instruments.sanitizer, self._instruments.profiler
        if not promising(report, self._terms.policy, self._costs(report)):
            return replace(report, sanitizers=_not_sanitized(NOT_WON if sanitizer else NO_SANITIZER))
        with self._watch.stage("verify_s"), runners.drawn(self._work, *self._draws(1)) as child:
            if sanitizer is None:
                report = replace(report, sanitizers=_not_sanitized(NO_SANITIZER))
            else:
                self._say(None, "sanitizing")
                with self._watch.step(0, "sanitizers"):
                    report = replace(report, sanitizers=self._sanitized(child, sanitizer, report))
            if profiler is None or not _clean(report):
                return report
            self._say(None, "profiling")
            with self._watch.step(0, "profiler"):
                return replace(report, profiles=self._profiles(child, profiler))

    def _say(self, process: int | None, stage: str) -> None:
        """Set the current step of the job, which is shown together with the speed-up so far.

        Args:
            process: number of the process that executes the step, or None for the steps after the last comparison.
        """
        where = "" if process is None else f", process {process} of {self._most} at most"
        self._instruments.status.say(f"{stage}{where}{self._so_far}")

    def _repeat(self, against: str | None, process: int) -> tuple[Repeat, OutputChecks]:
        beside, policy = against == "incumbent", self._terms.policy
        request = Compare(
            series={side: side for side in self._sides},
            rounds=min(policy.process_samples if beside else policy.baseline_samples, policy.confirm_samples),
            baselines=not beside and against is not None,
            only=None if beside else against,
            new_inputs="challenger",
            inputs=-(-policy.judged_inputs // max(1, policy.confirm_processes - 1)),
            budget_s=budget_s(self._work),
            policy=policy,
        )
        self._say(process, "timing")
        with self._fresh(process) as child:
            for side in self._sides:
                self._verify(child, side, launches=1)
            compared = self._compare(child, request)
        other = compared.series["incumbent"] if beside else compared.baselines.get(against or "")
        if other is None and against is not None:
            raise TroubleError(
                f"baseline {against}: {compared.unavailable.get(against, 'reference.py no longer returns it')}"
            )
        repeat = Repeat(challenger=compared.series["challenger"], other=other, repetition=compared.repetition)
        return repeat, compared.answers["challenger"]

    def _draws(self, process: int) -> tuple[int, ...]:
        """Return the numbers that a process appends to the seeds of its inputs.

        If runners are prepared during measurements (on GPUs), all processes after the first use the same inputs, so
        that expected outputs are computed only once. This is safe, because GPU kernels cannot pass results to later
        processes in files. On other devices, each process draws new inputs.
        """
        if process == 1:
            return (self._job.seed,)
        return (self._job.seed, 2 if self._ahead else process)

    def _assignment(self, process: int) -> Assignment:
        return self._work if process == 1 else replace(self._work, timed_only=True)

    def _prepare(self, process: int) -> None:
        """Start the runner of a later process now, unless this would disturb the current measurement."""
        if process > self._most or not self._ahead:
            return
        self._instruments.runners.prepare(
            self._assignment(process),
            *self._draws(process),
            process=process,
            modules=self._modules(process),
        )

    def _modules(self, process: int) -> tuple[str, ...]:
        if not self._ahead:
            return ()
        return imports(self._work, baselines=process == 1 or self._job.incumbent is None)

    @property
    def _ahead(self) -> bool:
        """True if runners are prepared during the measurements of earlier processes."""
        return overlaps(self._terms.device.kind)

    @contextmanager
    def _fresh(self, process: int) -> Iterator[Child]:
        """Yield the runner of the process with this number, and start the runners of later processes."""
        runners = self._instruments.runners
        if process > 1:
            self._prepare(process)
        with self._watch.stage("verify_s"):
            child = runners.fresh(
                self._assignment(process),
                *self._draws(process),
                process=process,
                modules=self._modules(process),
                another=not self._ahead,
            )
        for name, seconds in runners.opening.taken.items():
            self._watch.note(process, name, seconds)
        try:
            self._process = process
            for ahead in range(process + 1, process + 1 + PREPARED):
                self._prepare(ahead)
            yield child
        finally:
            with self._watch.step(process, "end"):
                child.kill()

    def _verify(self, child: Child, side: Side, *, launches: int) -> tuple[CaseError, ...]:
        self._suspect = side
        request = Verify(candidate=side, kernels=self._built[side].kernels, launches=launches)
        with self._watch.stage("verify_s"), self._watch.step(self._process, f"verify {side}"):
            return ask(child, request, Verified, stage="verify", limit_s=self._terms.policy.verify_timeout_s).cases

    def _compare(self, child: Child, request: Compare) -> Compared:
        self._suspect = "challenger"
        with self._watch.stage("verify_s"), self._watch.step(self._process, "next process"):
            self._instruments.runners.settle()
        with self._watch.stage("measure_s"):
            compared = compare(child, request, self._work)
        for name, seconds in compared.seconds.items():
            self._watch.note(self._process, name, seconds)
        if "incumbent" in compared.answers and (wrong := refusal(compared.answers["incumbent"])) is not None:
            self._suspect = "incumbent"
            raise CandidateFault(wrong)
        return compared

    def _sanitized(self, child: Child, sanitizer: Sanitizer, report: ConfirmReport) -> tuple[Sanitized, ...]:
        """Return the sanitizer's results for the challenger, on as many cases as the time limit permits."""
        call_us = None if report.challenger is None else report.challenger.median_us
        asking, kernels = Lock(), self._built["challenger"].kernels
        with scratch() as builds:

            @contextmanager
            def subject(case: str) -> Iterator[Subject]:
                with self._subject(child, "challenger", case, asking) as made:
                    yield replace(made, builds=builds, call_us=call_us)

            searched, limit_s = self._work.cases[0].case.name, self._terms.policy.verify_timeout_s
            return sanitized(sanitizer, kernels, subject, searched=searched, limit_s=limit_s)

    def _profiles(self, child: Child, profiler: Profiler) -> dict[str, Profiled]:
        """Return the profiles of the challenger and the incumbent on the searched problem, by role."""
        limit_s = _PROFILE_SHARE * self._terms.policy.verify_timeout_s
        cold, asking = self._terms.objective.cache == "cold", Lock()
        profiles: dict[str, Profiled] = {}
        for side in self._sides:  # one after another: a GPU's counters serve only one process
            with self._subject(child, side, self._work.cases[0].case.name, asking) as subject:
                profiles[side] = profiler.profile(subject, cold=cold, timeout_s=limit_s)
        return profiles

    @contextmanager
    def _subject(self, child: Child, side: Side, case: str, asking: Lock) -> Iterator[Subject]:
        """Save the inputs of a case to files, and yield what a sanitizer or profiler needs to examine the case.

        Args:
            asking: lock that serialises requests to the runner to save inputs.
        """
        built, device = self._built[side], self._terms.device
        with scratch() as folder:
            request = Save(case=case, folder=str(folder))
            with asking:
                ask(child, request, Saved, stage="verify", limit_s=self._terms.policy.verify_timeout_s)
            yield Subject(
                kernel=built.kernels[case],
                unit=self._work.built_as(side).copy.unit(device.kind, built.sources[case], device.architecture),
                inputs=folder,
                threads=self._terms.objective.threads,
                device_uuid=device.uuid,
                interruption=self._instruments.runners.interruption,
            )


def prepare_first(runners: Runners, work: Assignment, job: Confirm) -> Ahead:
    """Start the first runner of a confirmation, which computes expected outputs while the configs are built."""
    return runners.prepare(work, job.seed, process=1, modules=imports(work, baselines=True))


def compare(child: Child, request: Compare, work: Assignment) -> Compared:
    """Return the runner's comparison of kernels.

    The usual time limit is doubled, because baselines also import libraries and copy inputs.
    """
    return ask(child, request, Compared, stage="measure", limit_s=2 * work.terms.policy.measure_timeout_s)


def overlaps(kind: DeviceKind) -> bool:
    """Return True if expected outputs can be computed during measurements without disturbing them.

    The result is True if devices of this kind are not CPUs, and the machine has enough cores.
    """
    return not kind_of(kind).on_host and len(core_numbers()) >= SPARE_CORES


def budget_s(work: Assignment) -> float:
    """Return the time budget of interleaved rounds in seconds."""
    return _BUDGET_SHARE * work.terms.policy.measure_timeout_s


def _report(cases: tuple[CaseError, ...], compared: Compared, uncovered: Mapping[str, str]) -> ConfirmReport:
    left_out = {f"baseline {name}": reason for name, reason in compared.unavailable.items()}
    return ConfirmReport(
        challenger=compared.series["challenger"],
        challenger_again=compared.series["challenger_again"],
        incumbent=compared.series.get("incumbent"),
        baselines=compared.baselines,
        cases=cases,
        uncovered=uncovered,
        overwrite_check=compared.overwrite_check,
        answers=compared.answers["challenger"],
        environment={**compared.environment, **left_out},
    )


def _not_sanitized(reason: str) -> tuple[Sanitized, ...]:
    return (Sanitized(tool="sanitizers", skipped=reason),)


def _clean(report: ConfirmReport) -> bool:
    return not any(each.findings for each in report.sanitizers)
