"""State of a runner that has opened a device for one problem. All requests to the runner use this state."""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from evo.promotion.goal import needs_energy
from evo.trial.timing import Power
from workers.backends import (
    Buffers,
    DeviceLostError,
    DeviceUnfitError,
    Driver,
    HostSession,
    LaunchError,
    Session,
    Timer,
    driver,
)
from workers.backends.energy import EnergyMeter, Metered, NoMeterError
from workers.build.kernel import Argument, KernelFile
from workers.measure.buffers import BufferSets
from workers.measure.checks.output import OutputCheck
from workers.measure.family.expected_output import ExpectedOutput
from workers.measure.family.reference import Reference
from workers.measure.power import measure_power
from workers.measure.prepared import Prepared
from workers.measure.timing import ReferenceTimers
from workers.measure.verify import WrongAnswerError
from workers.runner import confinement
from workers.runner.heap import return_freed_memory
from workers.runner.protocol import Open, Prove

_POWER = 2
"""Number that is appended to the seed of the process, for the random order of energy measurements."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A loaded and verified kernel for the searched problem."""

    kernel: Any
    arguments: tuple[Argument, ...]
    rights: tuple[Buffers, ...]
    """Buffer sets with the verified outputs, one for each set of inputs on which the kernel is timed."""
    deferred: bool = False
    """True if the checks with mixed inputs and with two threads were postponed."""


@dataclass(kw_only=True)
class Bench:
    """A device that is opened for one problem, with its buffers, expected outputs and verified candidates.

    Attributes:
        candidates: verified candidates, by the names that requests use.
        mixtures: inputs that combine the inputs of several cases, with their expected outputs.
        proofs: descriptions of the checks that candidates passed, by the name of the check. They are stored with each
            measurement.
        loads: number of kernels that were loaded so far.
        drawn: numbers for the seeds of newly drawn inputs. Each number is used once, so that a kernel that stores its
            outputs has not received these inputs before.
    """

    terms: Open
    driver: Driver
    session: Session
    reference: Reference
    buffers: BufferSets
    mixtures: tuple[ExpectedOutput, ...] = ()
    candidates: dict[str, Candidate] = field(default_factory=dict)
    proofs: dict[str, str] = field(default_factory=dict)
    loads: int = 0
    drawn: Iterator[int] = field(default_factory=itertools.count)

    @classmethod
    def open(cls, prepared: Prepared, session: Session) -> "Bench":
        """Return the bench of a prepared problem, and limit the memory of this process.

        Raises:
            FamilyError: reference.py violates its contract.
        """
        prepared = prepared.complete()
        terms, reference, golden = prepared.terms, prepared.reference, prepared.golden
        assert golden is not None
        chosen = driver(terms.device.kind)
        mixtures = prepared.mixtures or ()
        if prepared.mixtures is None and isinstance(session, HostSession):
            mixtures = reference.mixtures(terms.cases, golden)
        return_freed_memory()  # the memory limit applies to the memory that is allocated from now on
        confinement.limit(terms.memory_limit_bytes, address_space=chosen.limits_address_space)
        session.limit_memory(terms.memory_limit_bytes)
        buffers = BufferSets(terms=terms, session=session, golden=golden)
        return cls(terms=terms, driver=chosen, session=session, reference=reference, buffers=buffers, mixtures=mixtures)

    @cached_property
    def reference_timers(self) -> ReferenceTimers:
        return ReferenceTimers(self.session)

    @cached_property
    def meter(self) -> EnergyMeter | None:
        """Energy meter of the device, or None if the metric of the search does not use energy.

        Raises:
            NoMeterError: the metric uses energy, and the device has no energy meter.
        """
        if not needs_energy(self.terms.objective):
            return None
        if not isinstance(self.session, Metered):
            raise NoMeterError(f"devices of kind {self.terms.device.kind} have no energy meter")
        return self.session.meter()

    def load(self, file: KernelFile, elsewhere: int | None) -> Any:
        """Load a kernel.

        Args:
            elsewhere: number that selects a group of cores on which no calls are timed. If None, the kernel runs on the
                cores for timing.
        """
        return self.session.load(Path(file.path), file.entry, file.arguments, file.launch, elsewhere=elsewhere)

    def timer(self, candidate: Candidate) -> Timer:
        """Return a timer of the candidate in the cache mode of the objective."""
        sets = self.buffers.sets(self.terms.objective.cache, candidate.arguments)
        return self.session.timer(candidate.kernel, sets)

    def power(self, timers: Mapping[str, Timer], spans: int, *, budget_s: float = math.inf) -> Mapping[str, Power]:
        """Return the measured power of each timer's kernel, by the name of the timer.

        The result is empty if the search's metric does not use energy.
        """
        if self.meter is None:
            return {}
        rng = np.random.default_rng([*self.terms.seed, _POWER])
        return measure_power(timers, self.meter, spans, rng=rng, budget_s=budget_s)

    def output_check(self, candidate: Candidate) -> OutputCheck:
        """Return a new object that checks the outputs of timed calls."""
        return OutputCheck(
            candidate.rights,
            self.buffers.timed,
            self.buffers.contents(candidate.arguments),
            deterministic=self.terms.objective.deterministic,
        )

    def require_nothing_left(self, where: str) -> None:
        """Raise `WrongAnswerError` if candidates left threads or processes running, or changed their process's state.

        In the error message, `where` describes the calls.
        """
        if fault := self.session.residue():
            raise WrongAnswerError(f"{where}: {fault}")


def require_undamaged(buffers: Buffers, where: str) -> None:
    """Raise `WrongAnswerError` if a kernel changed an input, or memory next to its buffers.

    In the error message, `where` describes the calls.
    """
    if fault := buffers.damage():
        raise WrongAnswerError(f"{where}: {fault}")


def proven(request: Prove) -> Session:
    """Open the device in this process, check that a known-good kernel succeeds, and return the session.

    Raises:
        DeviceUnfitError: the device cannot be opened, or the known-good kernel fails.
    """
    session = driver(request.device.kind).open(request.device, request.objective, Path(request.folder))
    try:
        fault = session.self_test()
    except (LaunchError, DeviceLostError) as error:
        fault = f"a known-good kernel does not run: {error}"
    if fault is not None:
        raise DeviceUnfitError(f"{request.device.model}: {fault}")
    return session
