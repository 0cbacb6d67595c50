"""Protocol between a slot and its runner: one JSON document per line, over two pipes.

The runner may run hostile machine code, so the slot reads only JSON from it, never pickles.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from pydantic import TypeAdapter

from evo.device import Device
from evo.family import JUDGED, Operand
from evo.promotion.policy import Policy
from evo.trial import Value
from evo.trial.objective import Objective
from evo.trial.outcome import CaseError, Outcome
from evo.trial.results import OutputChecks, OverwriteCheck
from evo.trial.timing import Bars, Timing
from workers.build.kernel import KernelFile


@dataclass(frozen=True, kw_only=True)
class CasePlan:
    """One correctness case. The first case of a plan is the searched problem, which is timed.

    Attributes:
        distribution: name of the distribution of the inputs in reference.py.
        seeds: seeds of the generators, one for each set of inputs.
        operands: inputs and outputs of the problem as the family declares them, including those that a kernel does not
            take.
        mixed: True if elements and rows of its inputs may be replaced by those of other cases.
    """

    name: str
    distribution: str
    problem: Mapping[str, Value]
    seeds: tuple[tuple[int, ...], ...]
    operands: tuple[Operand, ...]
    mixed: bool = True

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """The operands that are compared with ``reference()``."""
        return tuple(each for each in self.operands if each.role in JUDGED and each.tolerance is not None)

    @property
    def verified(self) -> tuple[Operand, ...]:
        """The operands that ``verify()`` judges."""
        return tuple(each for each in self.operands if each.verified)


@dataclass(frozen=True, kw_only=True)
class Prove:
    """Open the device and run a known kernel on it. This is the first request of a slot.

    Attributes:
        folder: the worker's cache.
    """

    device: Device
    objective: Objective
    folder: str
    kind: Literal["prove"] = "prove"


@dataclass(frozen=True, kw_only=True)
class Open:
    """Compute inputs and expected outputs for the device. This request follows `Prove`.

    Attributes:
        reference: path of the family's reference.py.
        folder: the worker's cache.
        memory_limit_bytes: memory that the runner may allocate after this request.
        reentrant: False if the family says that two threads may not call its kernels at the same time.
        fixed: True for a variant, whose author cannot edit family.toml. Errors then suggest no change of family.toml.
        process: number of the process within a job. Processes with the same cases and different numbers differ in all
            other random draws: orders of rounds, further inputs, and changes between samples.
        modules: Python modules that the process will need. It imports them while it computes.
    """

    device: Device
    objective: Objective
    family_digest: str
    reference: str
    folder: str
    memory_limit_bytes: int
    cases: tuple[CasePlan, ...]
    reentrant: bool = True
    fixed: bool = False
    process: int = 0
    modules: tuple[str, ...] = ()
    kind: Literal["open"] = "open"

    @property
    def seed(self) -> list[int]:
        """Seed of all random draws of the process, except those of the cases."""
        return [*self.cases[0].seeds[0], self.process]


@dataclass(frozen=True, kw_only=True)
class Prepare:
    """Compute inputs and expected outputs of a later `Open` request in advance, without the device.

    Another runner may be measuring on the device, so references are computed on CPU cores.
    """

    terms: Open
    kind: Literal["prepare"] = "prepare"


@dataclass(frozen=True, kw_only=True)
class Load:
    """Import modules in advance, before a search is known."""

    modules: tuple[str, ...]
    kind: Literal["load"] = "load"


@dataclass(frozen=True, kw_only=True)
class Draw:
    """Draw the first inputs of each case for `Save` requests. No device is needed, and no expected outputs are
    computed.
    """

    terms: Open
    kind: Literal["draw"] = "draw"


@dataclass(frozen=True, kw_only=True)
class Verify:
    """Load a candidate and verify it on every case for which it has a kernel.

    Attributes:
        candidate: name of the candidate in later requests.
        kernels: kernels by case name.
        launches: calls with the first inputs of each case, which must all give the same result.
        deferred: True to postpone the checks with mixed inputs and with two threads. `Measure` makes them if early
            samples show that the candidate may be among the fastest.
        hopeless_us: see `evo.trial.timing.Bars`.
    """

    candidate: str
    kernels: Mapping[str, KernelFile]
    launches: int = 3
    deferred: bool = False
    hopeless_us: float | None = None
    kind: Literal["verify"] = "verify"


@dataclass(frozen=True, kw_only=True)
class Measure:
    """Time a verified candidate in the quick gate. `other_samples` is the number of samples in the cache mode that does
    not rank.
    """

    candidate: str
    samples: int
    other_samples: int
    bars: Bars = field(default_factory=Bars)
    kind: Literal["measure"] = "measure"


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Time several series and, if requested, baselines in interleaved rounds. Sample i of each series is of round i.

    Attributes:
        series: name of the series → candidate; two series of the same candidate are timed independently.
        only: name of the only baseline to time; None: all.
        overwrite_check: name of the series for the overwrite check; None: no check.
        policy: limits of the overwrite check and the minimum number of rounds.
        inputs: number of further inputs on which the challenger is judged after the rounds, if time allows.
        budget_s: time for the rounds, in seconds. Baselines that would exceed it are left out. If there are only
            baselines, the number of rounds is reduced instead.
    """

    series: Mapping[str, str]
    rounds: int
    baselines: bool
    budget_s: float
    only: str | None = None
    overwrite_check: str | None = None
    inputs: int = 0
    policy: Policy = field(default_factory=Policy)
    kind: Literal["compare"] = "compare"


@dataclass(frozen=True, kw_only=True)
class Save:
    """Write the inputs of a case to a folder, after `Draw`. ``NAME.bin`` contains the bytes of one input."""

    case: str
    folder: str
    kind: Literal["save"] = "save"


Request: TypeAlias = Prove | Load | Prepare | Draw | Open | Verify | Measure | Compare | Save


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A request of another kind has succeeded: `Prove`, `Open`, `Prepare`, `Load` or `Draw`."""

    kind: Literal["ready"] = "ready"


@dataclass(frozen=True, kw_only=True)
class Verified:
    """The candidate is correct on all requested cases."""

    cases: tuple[CaseError, ...]
    kind: Literal["verified"] = "verified"


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """Samples of the quick gate. If a limit of `Measure.bars` was exceeded, there are fewer than requested, and no
    `other`.
    """

    timing: Timing
    other: Timing | None = None
    pruned: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    kind: Literal["sampled"] = "sampled"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Samples of interleaved rounds by series and by baseline, and the reasons why other baselines were not timed.

    Attributes:
        answers: output checks by candidate. Candidates with wrong outputs were timed, too.
        seconds: duration of each step of the comparison in seconds, in order.
    """

    series: Mapping[str, Timing]
    baselines: Mapping[str, Timing] = field(default_factory=dict)
    unavailable: Mapping[str, str] = field(default_factory=dict)
    overwrite_check: OverwriteCheck | None = None
    answers: Mapping[str, OutputChecks] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    kind: Literal["compared"] = "compared"


@dataclass(frozen=True, kw_only=True)
class Saved:
    """The inputs were written to the folder."""

    kind: Literal["saved"] = "saved"


@dataclass(frozen=True, kw_only=True)
class Refused:
    """The candidate is faulty, as `outcome` states."""

    outcome: Outcome
    kind: Literal["refused"] = "refused"


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """The family or the machine is faulty. No candidate can be judged on this machine until the fault is repaired.

    Attributes:
        exhausted: True if the machine's disk is full, so that another machine must do the work.
    """

    reason: str
    exhausted: bool = False
    kind: Literal["trouble"] = "trouble"


@dataclass(frozen=True, kw_only=True)
class Unfit:
    """The device is faulty, because a known kernel fails on it."""

    reason: str
    kind: Literal["unfit"] = "unfit"


Reply: TypeAlias = Ready | Verified | Sampled | Compared | Saved | Refused | Trouble | Unfit

REQUESTS: TypeAdapter[Request] = TypeAdapter(Request, config={"defer_build": True})
REPLIES: TypeAdapter[Reply] = TypeAdapter(Reply, config={"defer_build": True})


def encode(message: Request | Reply, adapter: TypeAdapter[Any]) -> bytes:
    """Serialize a message as one line."""
    return adapter.dump_json(message) + b"\n"
