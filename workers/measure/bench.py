"""A device opened for one problem, in a runner: verifies, times and compares candidates."""

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np

from evo.device.estimate.roofline import cold_sets
from evo.promotion import straddles
from evo.promotion.goal import needs_energy
from evo.promotion.policy import Policy
from evo.promotion.rules.sequential import clear, hopeless, precise
from evo.reference.encoding import is_floating
from evo.reference.library import GpuNeededError, without_gpu
from evo.trial.objective import Objective
from evo.trial.outcome import CaseError, Pruned
from evo.trial.results import OverwriteCheck, Repetition
from evo.trial.timing import Bars, Power, Timing
from workers.backends import (
    Buffers,
    DeviceLostError,
    DeviceUnfitError,
    Driver,
    LaunchError,
    Session,
    Timer,
    TrespassError,
    driver,
)
from workers.backends.energy import EnergyMeter, Metered, NoMeterError
from workers.build.cache import Cache
from workers.build.kernel import Argument, KernelFile
from workers.measure.baselines import Baselines, prepare_baselines
from workers.measure.checks.contents import HELD_BACK, Contents
from workers.measure.checks.output import OutputCheck, refusal
from workers.measure.checks.overtaken import changing, judge_overtaken
from workers.measure.checks.overwrite import (
    LOOKS,
    MIXED_SETS,
    SHORT_ROUNDS,
    disagreement,
    judge_mixed,
    mixed_sets,
    most_disagreement,
    overwrite_check,
    ring_sets,
    short_batch,
    shortened,
    unsteady,
)
from workers.measure.checks.repetition import MOST_SETS as MOST_REPETITION_SETS
from workers.measure.checks.repetition import repetition
from workers.measure.checks.two_threads import judge_two_threads
from workers.measure.family.expected_output import Arrays, ExpectedOutput
from workers.measure.family.reference import Reference
from workers.measure.power import CONFIRM_SPANS, QUICK_SPANS, measure_power
from workers.measure.proof import ProofPlan
from workers.measure.timing import Moment, ReferenceTimers, Taken, fitting_rounds, interleave, take
from workers.measure.verify import HopelessError, WrongAnswerError, judge, remember, verify, verify_elsewhere
from workers.runner import confinement
from workers.runner.protocol import (
    CasePlan,
    Compare,
    Compared,
    Measure,
    Open,
    Prepare,
    Prove,
    Sampled,
    Verified,
    Verify,
)
from workers.system.seconds import Seconds

Mode = Literal["hot", "cold"]
_ORDERS, _POWER = 1, 2
"""Separate the random streams of orders from that of inputs, which has the same seed."""

_KEPT_SETS = 2
"""Number of argument lists whose buffers are kept, because allocating them for cold timing takes longer than timing."""

_FURTHER, _NEW, _OVERTAKEN = 0x66, 0x6E, 0x6F
"""Separate the seeds of further inputs from those of the cases."""

_FURTHER_S = 0.3
"""Seconds that a process may spend on drawing and judging further inputs."""

_REPETITION_S = 0.5
"""Seconds that a process may spend on calls on new and known inputs, including the drawing."""

_OVERTAKEN_S = 0.3
"""Seconds that a process may spend on calls whose inputs change during the calls."""

_LEAST_HOPELESS_US = 20_000.0
"""Duration of a call in µs below which every candidate is verified on all cases: the request to the device and a first
touch of memory count as well, and little time would be saved.
"""

_WITNESS_SHARE = 10
"""The check for skipped work may take one part in this many of the budget of all rounds."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A loaded kernel of the searched problem that passed verification."""

    kernel: Any
    arguments: tuple[Argument, ...]
    rights: tuple[Buffers, ...]
    """For each content of the timed buffers, a set with the verified outputs."""
    deferred: bool = False
    """True while checks on mixed inputs and by two threads are due."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Inputs and expected outputs for an `Open` request.

    Attributes:
        drawn: inputs of each case and seed.
        golden: expected outputs; None where the reference needs the GPU and was not yet computed.
    """

    terms: Open
    reference: Reference
    drawn: Sequence[Arrays]
    golden: Mapping[str, tuple[ExpectedOutput, ...]] | None

    @classmethod
    def ahead(cls, request: Prepare) -> "Prepared | None":
        """Compute what needs no GPU, because another process may be measuring on it; None if everything needs it.

        Raises:
            FamilyError: reference.py does not keep its contract.
        """
        with without_gpu(), suppress(GpuNeededError), _importing(request.terms.modules):
            prepared = cls._begun(request.terms)
            try:
                return prepared.complete()
            except GpuNeededError:
                return prepared
        return None

    @classmethod
    def of(cls, terms: Open) -> "Prepared":
        """Compute inputs and expected outputs, on the GPU where it is faster.

        Raises:
            FamilyError: reference.py does not keep its contract.
        """
        with _importing(terms.modules):
            return cls._begun(terms).complete()

    @classmethod
    def _begun(cls, terms: Open) -> "Prepared":
        reference = Reference(Path(terms.reference), terms.family_digest, Cache(Path(terms.folder)))
        return cls(terms=terms, reference=reference, drawn=reference.drawn(terms.cases), golden=None)

    def complete(self) -> "Prepared":
        """Return a copy in which all missing references are computed.

        Raises:
            FamilyError: reference.py does not keep its contract.
            GpuNeededError: see `Reference.goldens`.
        """
        if self.golden is not None:
            return self
        return replace(self, golden=self.reference.goldens(self.terms.cases, self.drawn))


@contextmanager
def _importing(modules: Sequence[str]) -> Iterator[None]:
    """Import modules in another thread for the duration of the block."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(import_all, modules)
        yield


@dataclass(kw_only=True)
class Bench:
    """Executes requests on the device; `workers.runner.protocol` defines each request."""

    terms: Open
    driver: Driver
    session: Session
    reference: Reference
    golden: Mapping[str, tuple[ExpectedOutput, ...]]
    mixtures: tuple[ExpectedOutput, ...] = ()
    candidates: dict[str, Candidate] = field(default_factory=dict)
    _processes: int = 0
    _kept: dict[tuple[str, int], dict[tuple[Argument, ...], Sequence[Buffers]]] = field(default_factory=dict)
    _held: WeakKeyDictionary[Buffers, int] = field(default_factory=WeakKeyDictionary)
    _contents_of: WeakKeyDictionary[Buffers, Contents] = field(default_factory=WeakKeyDictionary)

    @classmethod
    def open(cls, prepared: Prepared, session: Session) -> "Bench":
        """Restrict this process and return its bench.

        Raises:
            FamilyError: reference.py does not keep its contract.
        """
        prepared = prepared.complete()
        terms, reference, golden = prepared.terms, prepared.reference, prepared.golden
        assert golden is not None
        chosen = driver(terms.device.kind)
        mixtures = reference.mixtures(terms.cases, golden) if session.places else ()
        confinement.limit(terms.memory_limit_bytes, address_space=chosen.limits_address_space)
        session.limit_memory(terms.memory_limit_bytes)
        return cls(terms=terms, driver=chosen, session=session, reference=reference, golden=golden, mixtures=mixtures)

    def verify(self, request: Verify) -> Verified:
        """Load a candidate's kernels and verify every case.

        Raises:
            WrongAnswerError, LaunchError: the candidate is at fault.
        """
        self.candidates.pop(request.candidate, None)
        chosen = [plan for plan in self.terms.cases if plan.name in request.kernels]
        loading = (self._loaded(plan, request.kernels[plan.name]) for plan in chosen)
        following, errors = next(loading, None), list[CaseError]()
        for plan in chosen:
            loaded, following = following, next(loading, None)  # the next one loads while this one is verified
            assert loaded is not None
            errors += self._verify_case(plan, request, *loaded)
            del loaded
        return Verified(cases=tuple(errors))

    def measure(self, request: Measure) -> Sampled:
        """Run the quick gate: the ranking cache mode first, then the other mode for candidates that may be the
        fastest.
        """
        candidate = self.candidates[request.candidate]
        ranking, moment = self.terms.objective.cache, self._reference_timers.now()
        further = partial(self._verify_further, candidate) if candidate.deferred else None
        taken, calls = self._take(candidate, ranking, request.samples, request.bars, promising=further)
        timing, environment = moment.timing(taken.samples_us, calls), {**self.session.environment(), **self._proofs}
        if candidate.deferred and len(taken.samples_us) < request.samples:
            environment["left out, as it is not among the fastest"] = "mixed inputs, two threads"
        if taken.pruned:
            return Sampled(timing=timing, pruned=True, environment=environment)
        if len(taken.samples_us) < request.samples:
            self._judge_again(candidate)
            return Sampled(timing=timing, environment=environment)
        if self._meter is not None:
            power = self._power({request.candidate: self._timer(candidate)}, QUICK_SPANS)
            timing = replace(timing, power=power.get(request.candidate))
        beside, calls = self._take(candidate, "cold" if ranking == "hot" else "hot", request.other_samples)
        other = moment.timing(beside.samples_us, calls)
        self._judge_again(candidate)
        sets = self._sets("cold", candidate.arguments)
        environment["cold"] = f"{len(sets)} buffer sets of {sets[0].bytes_held} bytes"
        return Sampled(timing=timing, other=other, environment=environment)

    def compare(self, request: Compare) -> Compared:
        """Time candidates and baselines in interleaved rounds, then verify each candidate again."""
        mode, seconds = self.terms.objective.cache, Seconds()
        if self._meter is not None:  # half of the time is for the energy
            request = replace(request, budget_s=request.budget_s / 2)
        chosen = {name: self.candidates[candidate] for name, candidate in request.series.items()}
        with seconds.of("buffers"):
            timers = {
                name: self.session.timer(each.kernel, self._sets(mode, each.arguments)) for name, each in chosen.items()
            }
            self._require_nothing_left("the first launches to be timed")
        with seconds.of("baselines"):
            baselines = self._baselines(mode, request.only) if request.baselines else Baselines()
            self.session.settle()  # threads and helper processes of a library do not belong to the candidates
        with seconds.of("rounds"):
            rounds = fitting_rounds(timers, baselines, request)
            scrutinies = {name: self._output_check(self.candidates[name]) for name in set(request.series.values())}

            def look(name: str) -> None:
                if name in timers:
                    sets = self._sets(mode, chosen[name].arguments)
                    scrutinies[request.series[name]].look_and_change(sets[timers[name].last])

            orders = np.random.default_rng([*self._seed, _ORDERS])
            samples = interleave(
                {**timers, **baselines.timers},
                rounds,
                rng=orders,
                warm=mode == "hot",
                after=look,
                enough=partial(_enough, request, self.terms.objective),
            )
            self._require_nothing_left("the timed launches")
            moment = self._reference_timers.now()
        power: Mapping[str, Power] = {}
        if "incumbent" in timers or request.overwrite_check is not None:
            with seconds.of("energy"):
                power = self._power(timers, CONFIRM_SPANS, budget_s=request.budget_s)
                self._require_nothing_left("the launches whose energy was measured")
        found = None
        if (name := request.overwrite_check) is not None:
            look_on = scrutinies[request.series[name]].look
            with seconds.of("overwritten outputs"):
                timed = moment.timing(samples[name], timers[name].calls)
                check = partial(
                    self._overwrite_check, chosen[name], timed.calls_per_sample, look_on, moment=moment, request=request
                )
                found = self._alike(chosen[name], check, timed, request.policy)
            with seconds.of("changing inputs"):
                found = self._overtaken(chosen[name], found, moment)
        with seconds.of("further inputs"):
            if (name := request.series.get("challenger")) is not None and request.inputs:
                self._judge_further(self.candidates[name], scrutinies[name], request.inputs)
            answers = {name: output_check.found for name, output_check in scrutinies.items()}
            for candidate in (self.candidates[name] for name, each in answers.items() if not each.wrong):
                self._judge_again(candidate)
        return Compared(
            series={
                name: replace(moment.timing(samples[name], timer.calls), power=power.get(name))
                for name, timer in timers.items()
            },
            baselines={name: moment.timing(samples[name], timer.calls) for name, timer in baselines.timers.items()},
            unavailable=baselines.unavailable,
            overwrite_check=found,
            answers=answers,
            environment={**self.session.environment(), **self._proofs},
            seconds=seconds.taken,
        )

    @property
    def _seed(self) -> list[int]:
        """Return the seed of everything that this process draws at random, except the cases."""
        return [*self.terms.cases[0].seeds[0], self.terms.process]

    @property
    def _nominal(self) -> ExpectedOutput:
        return self.golden[self.terms.cases[0].name][0]

    @cached_property
    def _timed_goldens(self) -> tuple[ExpectedOutput, ...]:
        """Return the expected outputs of all contents that the timed buffers hold in turn."""
        found = self.golden[self.terms.cases[0].name]
        return found[:-1] or found

    @cached_property
    def _held_back(self) -> ExpectedOutput:
        """Return the inputs that candidates receive only after all timing."""
        return self.golden[self.terms.cases[0].name][-1]

    @cached_property
    def _reference_timers(self) -> ReferenceTimers:
        return ReferenceTimers(self.session)

    @cached_property
    def _meter(self) -> EnergyMeter | None:
        """The energy meter of the device; None if the search's metric needs none.

        Raises:
            NoMeterError: the metric needs one, and the device has none.
        """
        if not needs_energy(self.terms.objective):
            return None
        if not isinstance(self.session, Metered):
            raise NoMeterError(f"devices of kind {self.terms.device.kind} have no energy meter")
        return self.session.meter()

    @cached_property
    def _proofs(self) -> dict[str, str]:
        """Return the checks beyond the cases, as recorded with the measurement."""
        return {}

    def _loaded(self, plan: CasePlan, file: KernelFile) -> tuple[ProofPlan, Any]:
        """Draw the proof plan of a case and load its kernel."""
        self._processes += 1
        proof = ProofPlan.draw((*plan.seeds[0], self.terms.process), self._processes)
        return proof, self._load(file, None if plan is self.terms.cases[0] else proof.core)

    def _verify_case(self, plan: CasePlan, request: Verify, proof: ProofPlan, kernel: Any) -> Iterator[CaseError]:
        """Verify one case, in a separate process if the device supports this; the timed case keeps its process."""
        file = request.kernels[plan.name]
        timed = plan is self.terms.cases[0]
        goldens = self._timed_goldens if timed else self.golden[plan.name]
        (buffers,) = self._hot(plan.name, file.arguments)
        rights: list[Buffers] = []
        for content, golden in enumerate(goldens):
            self._put(buffers, plan.name, content, file.arguments)  # same addresses: kernels may recognise them
            launches, durations_us = (request.launches if content == 0 else 1), list[float]()
            yield from verify(
                self.session,
                kernel,
                buffers,
                golden,
                launches=launches,
                deterministic=self.terms.objective.deterministic,
                stale=content > 0,
                fixed=self.terms.fixed,
                brief=self.session.places,
                durations_us=durations_us,
            )
            if timed and content == 0:
                self._require_hope(durations_us, request.hopeless_us)
            if timed:
                rights.append(buffers.sibling())
                rights[-1].rewrite(buffers)
        right = remember(buffers, goldens[-1]) if self.session.places else {}  # before calls on other inputs
        candidate = Candidate(
            kernel=kernel, arguments=file.arguments, rights=tuple(rights), deferred=timed and request.deferred
        )
        if timed and not request.deferred:
            self._verify_mixtures(candidate, buffers)
        if self.session.places:
            launches_elsewhere = (self.session, kernel, buffers, goldens[-1], proof.launches)
            verify_elsewhere(*launches_elsewhere, right=right, fixed=self.terms.fixed)
            self._proofs[f"proof of {plan.name}"] = proof.words
        if timed and not request.deferred:
            self._verify_two_threads(candidate, buffers)
        if timed:
            self.candidates[request.candidate] = candidate

    def _require_hope(self, durations_us: Sequence[float], hopeless_us: float | None) -> None:
        """Stop the verification of a candidate whose shortest call is far too slow.

        Raises:
            HopelessError: it is.
        """
        if hopeless_us is None or min(durations_us) <= max(hopeless_us, _LEAST_HOPELESS_US):
            return
        timing = self._reference_timers.now().timing(durations_us, 1)
        raise HopelessError(Pruned(timing=timing, threshold_us=hopeless_us, verified=False))

    def _verify_further(self, candidate: Candidate) -> None:
        """Run the checks that `Verify.deferred` postponed."""
        (buffers,) = self._sets("hot", candidate.arguments)
        self._verify_mixtures(candidate, buffers)
        self._verify_two_threads(candidate, buffers)

    def _verify_two_threads(self, candidate: Candidate, buffers: Buffers) -> None:
        """Verify concurrent calls of two threads, on the timed buffers and on a second set with the first inputs."""
        if not (self.session.places and self.terms.reentrant):
            return
        contents = self._contents(candidate.arguments)
        contents_by_thread = [contents.of(buffers), 0]
        judge_two_threads(
            self.session,
            candidate.kernel,
            [buffers, contents.source(0)],
            [candidate.rights[each] for each in contents_by_thread],
            [self._timed_goldens[each] for each in contents_by_thread],
            fixed=self.terms.fixed,
        )

    def _verify_mixtures(self, candidate: Candidate, buffers: Buffers) -> None:
        """Verify one call on each mixture of the cases' inputs, at the timed addresses.

        The call before is on the nominal inputs, to which the first mixture is close.
        """
        kernel, arguments, contents = candidate.kernel, candidate.arguments, self._contents(candidate.arguments)
        before, deterministic = contents.of(buffers), self.terms.objective.deterministic
        for golden in (*self._timed_goldens[:1], *self.mixtures) if self.mixtures else ():
            buffers.renew(golden.inputs_of(arguments))
            contents.note(buffers, HELD_BACK)
            verify(self.session, kernel, buffers, golden, launches=1, deterministic=deterministic, brief=True)
        contents.put(buffers, before)

    def _load(self, file: KernelFile, elsewhere: int | None) -> Any:
        return self.session.load(Path(file.path), file.entry, file.arguments, file.launch, elsewhere=elsewhere)

    def _take(
        self,
        candidate: Candidate,
        mode: Mode,
        samples: int,
        bars: Bars = Bars(),
        *,
        promising: Callable[[], None] | None = None,
    ) -> tuple[Taken, int]:
        """Take samples, check the output of each, and return them with the number of calls that each averages over."""
        sets = self._sets(mode, candidate.arguments)
        timer = self.session.timer(candidate.kernel, sets)
        # all hot calls write the same outputs, so the last timed call can be checked
        before_last = sets[0].poison if mode == "hot" else None
        output_check = self._output_check(candidate)
        taken = take(
            timer,
            samples,
            bars=bars,
            promising=promising,
            before_last=before_last,
            after=lambda: output_check.look_and_change(sets[timer.last]),
            warm=mode == "hot",
        )
        self._require_nothing_left("the timed launches")
        if (wrong := refusal(output_check.found)) is not None:
            raise WrongAnswerError(wrong.reason)
        if mode == "hot":
            self._require_undamaged(sets[0], "the timed launches")
        return taken, timer.calls

    def _timer(self, candidate: Candidate) -> Timer:
        return self.session.timer(candidate.kernel, self._sets(self.terms.objective.cache, candidate.arguments))

    def _power(self, timers: Mapping[str, Timer], spans: int, *, budget_s: float = math.inf) -> Mapping[str, Power]:
        """Return the power of each timer's kernel; empty if the search's metric needs none."""
        if self._meter is None:
            return {}
        rng = np.random.default_rng([*self._seed, _POWER])
        return measure_power(timers, self._meter, spans, rng=rng, budget_s=budget_s)

    def _require_nothing_left(self, where: str) -> None:
        """Reject kernels that leave threads, processes or changed state behind, also after verification."""
        if fault := self.session.residue():
            raise WrongAnswerError(f"{where}: {fault}")

    def _output_check(self, candidate: Candidate) -> OutputCheck:
        return OutputCheck(
            candidate.rights,
            self._timed_goldens,
            self._contents(candidate.arguments),
            deterministic=self.terms.objective.deterministic,
        )

    def _overwrite_check(
        self,
        candidate: Candidate,
        calls: int,
        look: Callable[[Buffers], None],
        *,
        moment: Moment,
        request: Compare,
    ) -> OverwriteCheck:
        """Check for skipped work: cold calls rotate the timed sets, hot calls rotate outputs with shared inputs."""
        sets, contents = (
            self._sets(self.terms.objective.cache, candidate.arguments),
            self._contents(candidate.arguments),
        )
        content = contents.of(sets[0])
        if self.terms.objective.cache == "hot":
            cache_bytes = self.terms.device.limits.get("l2_bytes", self.session.cold_bytes)
            wanted = ring_sets(candidate.arguments, calls, cache_bytes)
            sets = sets[0].siblings(wanted)
            for buffers in sets:
                contents.note(buffers, content)
        for buffers in sets:
            contents.put(buffers, content)
        sources = {"answered": candidate.rights[content], "poisoned": sets[0].sibling()}
        turn = self.session.timer(candidate.kernel, sets, once=True)
        repeated = None
        if self.terms.objective.cache == "hot":
            repeated = self.session.timer(candidate.kernel, [sets[0]] * len(sets), once=True)
        budget_s = request.budget_s / _WITNESS_SHARE
        found = overwrite_check(
            turn,
            sets,
            sources,
            look=look,
            moment=moment,
            budget_s=budget_s,
            undecided=partial(straddles, policy=request.policy),
            repeated=repeated,
        )
        mixed, turn = self._mixed(candidate)
        judge_mixed(turn, mixed, contents, look=look, calls=request.policy.judged_calls, budget_s=budget_s)
        found = replace(found, repetition=self._repetition(candidate, mixed, moment))
        self._require_nothing_left("launches on outputs that were overwritten")
        for each in (sets[0], sets[-1]):
            self._require_undamaged(each, "launches on outputs that were overwritten")
        return found

    def _mixed(self, candidate: Candidate) -> tuple[Sequence[Buffers], Timer]:
        """Return buffer sets that share no memory, and a timer that calls the kernel once on each set."""
        arguments = candidate.arguments
        sets = self._sets("cold", arguments)[:MIXED_SETS] if self.terms.objective.cache == "cold" else ()
        if not sets:
            count = mixed_sets(self._hot(self.terms.cases[0].name, arguments)[0].bytes_held)
            sets = self.session.allocate_sets(arguments, self._nominal.inputs_of(arguments), count)
        return sets, self.session.timer(candidate.kernel, sets, once=True)

    def _repetition(self, candidate: Candidate, sets: Sequence[Buffers], moment: Moment) -> Repetition | None:
        """Compare the times of calls on new inputs with calls on the first content, which the sets hold afterwards."""
        arguments, plan, drawn = candidate.arguments, self.terms.cases[0], itertools.count()
        known = self._timed_goldens[0].inputs_of(arguments)
        if not known:
            return None

        def draw() -> Arrays:
            inputs = self.reference.draw(plan, (*self._seed, _NEW, next(drawn)))
            return {name: inputs[name] for name in known}

        chosen = sets[:MOST_REPETITION_SETS]
        turn = self.session.timer(candidate.kernel, chosen, once=True)
        again = self.session.timer(candidate.kernel, [chosen[0]] * len(chosen), once=True)
        found = repetition(turn, again, chosen, known=known, draw=draw, moment=moment, budget_s=_REPETITION_S)
        contents = self._contents(arguments)
        for each in chosen:
            each.renew(known)
            contents.note(each, 0)
        return found

    def _overtaken(self, candidate: Candidate, found: OverwriteCheck, moment: Moment) -> OverwriteCheck:
        """Verify and time consecutive calls whose inputs change between calls, at the timed addresses."""
        plan, arguments = self.terms.cases[0], candidate.arguments
        floating = [is_floating(each.dtype) for each in plan.operands if each.role == "input"]
        if not (self.session.places and plan.mixed and floating and all(floating)):
            return found  # half-written integers may be invalid inputs
        (buffers,) = self._sets("hot", arguments)
        contents, call_us = self._contents(arguments), (found.repeated or found.answered).median_us
        goldens = [*self._timed_goldens[:2], *self.mixtures]
        rng = np.random.default_rng([*self._seed, _OVERTAKEN])
        contents.note(buffers, HELD_BACK)
        common = (self.session, candidate.kernel, buffers, arguments, goldens)
        judged = judge_overtaken(*common, call_us=call_us, rng=rng, budget_s=_OVERTAKEN_S)
        self._proofs["inputs changed while calls followed each other"] = f"{judged} answers judged"
        common = (self.session, candidate.kernel, buffers, arguments, goldens[:2])
        timed = changing(*common, call_us=call_us, moment=moment, rng=rng, budget_s=_OVERTAKEN_S)
        contents.put(buffers, 0)
        self._require_nothing_left("launches whose inputs changed meanwhile")
        return replace(found, changing=timed)

    def _judge_further(self, candidate: Candidate, output_check: OutputCheck, most: int) -> None:
        """Verify one call on each further input, while time remains and reference.py is fast."""
        (buffers,) = self._sets("hot", candidate.arguments)
        contents, plan = self._contents(candidate.arguments), self.terms.cases[0]
        before, began_s = contents.of(buffers), time.monotonic()
        for number in range(most):
            if time.monotonic() - began_s + self.reference.slowest_s > _FURTHER_S:
                break
            golden = self.reference.further(plan, (*self._seed, _FURTHER, number))
            buffers.renew(golden.inputs_of(candidate.arguments))
            contents.note(buffers, HELD_BACK)
            buffers.poison()
            try:
                self.session.call(candidate.kernel, buffers)
            except TrespassError as error:
                raise WrongAnswerError(f"a launch on further inputs: {error}") from None
            output_check.look_at(buffers, golden)
        contents.put(buffers, before)

    def _alike(
        self, candidate: Candidate, check: Callable[[], OverwriteCheck], timed: Timing, policy: Policy
    ) -> OverwriteCheck:
        """Check for skipped work; repeat the check if a kernel is much faster in repeated or timed calls.

        Raises:
            WrongAnswerError: it is faster in every check, although the times of equal calls are stable.
        """
        for _ in range(LOOKS):
            found = check()
            if not (fault := self._disagreement(candidate, found, timed, policy)):
                return found
        calls = found.repetition
        if not unsteady([timed, found.repeated, found.poisoned, *([] if calls is None else [calls.known, calls.same])]):
            raise WrongAnswerError(fault)
        return replace(found, unclear=fault)

    def _disagreement(self, candidate: Candidate, found: OverwriteCheck, timed: Timing, policy: Policy) -> str:
        """Return why a kernel may do less work in repeated or timed calls; empty if it does not."""
        sets, limits = found.poisoned.calls_per_sample, self.terms.device.limits
        limit = most_disagreement(candidate.arguments, sets, limits, policy)
        fault = disagreement(found.poisoned, found.repeated, limit, policy.skip_confidence)
        if self.session.places:  # only kernels of such devices share memory with the loop that calls them
            again = self._in_short_batches(candidate, timed, found.repeated or found.answered)
            fault = fault or shortened(again, timed, policy.max_ring_ratio, policy.skip_confidence)
        if (calls := found.repetition) is not None:
            sets, what = calls.known.calls_per_sample, "inputs and outputs"
            limit = most_disagreement(candidate.arguments, sets, limits, policy, shared_inputs=False)
            fault = fault or disagreement(calls.known, calls.same, limit, policy.skip_confidence, what=what)
        return fault or ""

    def _in_short_batches(self, candidate: Candidate, timed: Timing, other: Timing) -> Timing:
        """Time calls as in the timed rounds, but with another number of calls per batch."""
        mode = self.terms.objective.cache
        sets = self._sets(mode, candidate.arguments)
        timer = self.session.batch_timer(candidate.kernel, sets, short_batch(timed, other))
        samples = interleave({"short": timer}, SHORT_ROUNDS, rng=np.random.default_rng(0), warm=mode == "hot")
        return replace(timed, samples_us=tuple(samples["short"]), calls_per_sample=timer.calls)

    def _judge_again(self, candidate: Candidate) -> None:
        """Verify the candidate on unseen inputs at the addresses of the timed inputs."""
        (buffers,) = self._sets("hot", candidate.arguments)
        contents = self._contents(candidate.arguments)
        buffers.renew(self._held_back.inputs_of(candidate.arguments))
        contents.note(buffers, HELD_BACK)
        where = "a launch on new inputs after the timing"
        try:
            self.session.call(candidate.kernel, buffers)
        except TrespassError as error:
            raise WrongAnswerError(f"{where}: {error}") from None
        self._require_undamaged(buffers, where)
        self._require_nothing_left(where)
        judge(buffers, self._held_back, where)
        contents.put(buffers, 0)

    @staticmethod
    def _require_undamaged(buffers: Buffers, where: str) -> None:
        if fault := buffers.damage():
            raise WrongAnswerError(f"{where}: {fault}")

    def _sets(self, mode: Mode, arguments: tuple[Argument, ...]) -> Sequence[Buffers]:
        hot = self._hot(self.terms.cases[0].name, arguments)
        if mode == "hot":
            return hot
        count = cold_sets(self.session.cold_bytes, hot[0].bytes_held, self.terms.memory_limit_bytes)
        return self._keep(("cold", 0), arguments, self._nominal, count)

    def _hot(self, case: str, arguments: tuple[Argument, ...]) -> Sequence[Buffers]:
        """Return the buffers on which a case is verified; those of the first case are also timed."""
        return self._keep((f"case {case}", -1), arguments, self.golden[case][0], 1)

    def _put(self, buffers: Buffers, case: str, content: int, arguments: tuple[Argument, ...]) -> None:
        """Fill the buffers on which a case is verified with another content."""
        if case == self.terms.cases[0].name:
            self._contents(arguments).put(buffers, content)

    def _contents(self, arguments: tuple[Argument, ...]) -> Contents:
        """Return the contents that the timed buffers of these arguments may hold."""
        (hot,) = self._hot(self.terms.cases[0].name, arguments)
        if hot not in self._contents_of:
            name = self.terms.cases[0].name
            sources = [
                self._keep((f"content {name}", number), arguments, golden, 1)[0]
                for number, golden in enumerate(self._timed_goldens)
            ]
            rng = np.random.default_rng(self._seed)
            self._contents_of[hot] = Contents(sources, rng, self._held)
        return self._contents_of[hot]

    def _keep(
        self, key: tuple[str, int], arguments: tuple[Argument, ...], golden: ExpectedOutput, count: int
    ) -> Sequence[Buffers]:
        """Return buffers, reused for candidates with the same arguments; usually only workspace shapes differ."""
        shelf = self._kept.setdefault(key, {})
        buffers = shelf.pop(arguments, None)
        if buffers is None:
            while len(shelf) >= _KEPT_SETS:
                del shelf[next(iter(shelf))]
            buffers = self.session.allocate_sets(arguments, golden.inputs_of(arguments), count)
        shelf[arguments] = buffers
        return buffers

    def _baselines(self, mode: Mode, only: str | None) -> Baselines:
        problem = self.terms.cases[0].problem
        return prepare_baselines(
            self.session,
            self.reference,
            problem,
            self._nominal,
            function=self.driver.baselines,
            sets=(lambda _: 1) if mode == "hot" else self._cold_copies,
            only=only,
        )

    def _cold_copies(self, baselines: int) -> int:
        """Return the input copies for each baseline, fitted to limited memory, which also holds the outputs."""
        inputs, outputs = (
            sum(array.nbytes for array in arrays.values()) for arrays in (self._nominal.inputs, self._nominal.reference)
        )
        if not self.driver.limits_address_space:
            return cold_sets(self.session.cold_bytes, inputs, self.terms.memory_limit_bytes)
        return cold_sets(self.session.cold_bytes, inputs + outputs, self.terms.memory_limit_bytes // baselines)


def _enough(request: Compare, objective: Objective, samples: Mapping[str, Sequence[float]]) -> bool:
    """Return True if no further rounds are needed, because the challenger's ratios are precise or already decided."""
    own, policy = samples.get("challenger"), request.policy
    if own is None or "champion" in request.series:
        return False
    names = [*request.series, request.only]
    others = [samples[name] for name in names if name is not None and name != "challenger" and name in samples]
    if precise([(own, each) for each in others], policy):
        return True
    if "challenger_again" not in request.series or objective.metric is not None:  # other figures than times decide
        return False
    if "incumbent" in samples:
        return hopeless(own, samples["incumbent"], policy)
    return clear(own, [each for name, each in samples.items() if name not in request.series], policy)


def import_all(modules: Sequence[str]) -> None:
    """Import modules; errors are ignored here and reported where a module is used."""
    for name in modules:
        with suppress(Exception):
            import_module(name)


def proven(request: Prove) -> Session:
    """Open the device in this process and check that a known kernel succeeds.

    Raises:
        DeviceUnfitError: the device cannot be opened or gives a wrong result.
    """
    session = driver(request.device.kind).open(request.device, request.objective, Path(request.folder))
    try:
        fault = session.self_test()
    except (LaunchError, DeviceLostError) as error:
        fault = f"a known kernel does not run: {error}"
    if fault is not None:
        raise DeviceUnfitError(f"{request.device.model}: {fault}")
    return session
