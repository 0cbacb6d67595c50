"""Protocol of a slot and its runner: one JSON document per line, over two pipes.

The runner may be running hostile machine code, so the slot reads data from it and never pickles.
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
from evo.trial.results import OutputChecks, Witness
from evo.trial.timing import Bars, Timing
from workers.build.kernel import KernelFile


@dataclass(frozen=True, kw_only=True)
class CasePlan:
    """One correctness case. The first case of a plan is the searched problem, which is timed.

    Attributes:
        distribution: of the inputs, by the name reference.py knows.
        seeds: of the generators; one set of inputs each.
        operands: inputs and outputs of the problem as the family declares them, whichever of them a kernel takes.
        mixed: whether its elements and rows may be exchanged for those of other cases.
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
    """Make inputs and expected outputs for the device that was proven.

    Attributes:
        reference: path of the family's reference.py.
        folder: the worker's cache.
        memory_limit_bytes: what the runner may allocate from then on.
        reentrant: False if the family says that two threads may not call its kernels at the same time.
        process: number of the process within a job. Processes with the same cases differ by it in everything else that
            is drawn: orders of rounds, further inputs, changes between samples.
        modules: Python modules that the process will need, which it imports while it computes.
    """

    device: Device
    objective: Objective
    family_digest: str
    reference: str
    folder: str
    memory_limit_bytes: int
    cases: tuple[CasePlan, ...]
    reentrant: bool = True
    process: int = 0
    modules: tuple[str, ...] = ()
    kind: Literal["open"] = "open"


@dataclass(frozen=True, kw_only=True)
class Prepare:
    """Make inputs and expected outputs of a later `open` ahead, without a device; another runner may be measuring.

    References are computed on the cores.
    """

    terms: Open
    kind: Literal["prepare"] = "prepare"


@dataclass(frozen=True, kw_only=True)
class Draw:
    """Draw the first inputs of each case, for `save`. Needs no device, and computes no expected outputs."""

    terms: Open
    kind: Literal["draw"] = "draw"


@dataclass(frozen=True, kw_only=True)
class Verify:
    """Load a candidate and prove it correct on every case it has a kernel for.

    Attributes:
        candidate: its name in later requests.
        kernels: by case name.
        launches: calls with the first inputs of each case, which must all give the same result.
    """

    candidate: str
    kernels: Mapping[str, KernelFile]
    launches: int = 3
    kind: Literal["verify"] = "verify"


@dataclass(frozen=True, kw_only=True)
class Measure:
    """Time a verified candidate: the quick gate. `other_samples` are taken in the cache mode that does not rank."""

    candidate: str
    samples: int
    other_samples: int
    bars: Bars = field(default_factory=Bars)
    kind: Literal["measure"] = "measure"


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Time several series and, if asked, every baseline, interleaved: sample i of each was taken in round i.

    Attributes:
        series: name of the series → candidate; two series of one candidate are timed independently.
        only: name of the one baseline to time; None: all.
        witness: the series for the overwrite check; None: no check.
        policy: what it allows the witness, and how few rounds there may be.
        inputs: further inputs on which the challenger is judged after the rounds, as far as there is time.
        budget_s: baselines that would make the rounds last longer are left out, or the rounds fewer where there is
            nothing but baselines.
    """

    series: Mapping[str, str]
    rounds: int
    baselines: bool
    budget_s: float
    only: str | None = None
    witness: str | None = None
    inputs: int = 0
    policy: Policy = field(default_factory=Policy)
    kind: Literal["compare"] = "compare"


@dataclass(frozen=True, kw_only=True)
class Save:
    """After `draw`: write the inputs of a case into a folder, each as its bytes in ``NAME.bin``."""

    case: str
    folder: str
    kind: Literal["save"] = "save"


Request: TypeAlias = Prove | Prepare | Draw | Open | Verify | Measure | Compare | Save


@dataclass(frozen=True, kw_only=True)
class Ready:
    """The device is open and right, or the references are made."""

    kind: Literal["ready"] = "ready"


@dataclass(frozen=True, kw_only=True)
class Verified:
    """Correct on all cases given."""

    cases: tuple[CaseError, ...]
    kind: Literal["verified"] = "verified"


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """The quick gate's samples; fewer than asked for, and no `other`, when `Measure.bars` said so."""

    timing: Timing
    other: Timing | None = None
    pruned: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    kind: Literal["sampled"] = "sampled"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Interleaved samples by series and by baseline; baselines that could not run, with the reason.

    Attributes:
        answers: output checks by candidate; a candidate with wrong answers was timed like the others.
        seconds: time of each step of the comparison, in their order.
    """

    series: Mapping[str, Timing]
    baselines: Mapping[str, Timing] = field(default_factory=dict)
    unavailable: Mapping[str, str] = field(default_factory=dict)
    witness: Witness | None = None
    answers: Mapping[str, OutputChecks] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    kind: Literal["compared"] = "compared"


@dataclass(frozen=True, kw_only=True)
class Saved:
    """The inputs lie in the folder."""

    kind: Literal["saved"] = "saved"


@dataclass(frozen=True, kw_only=True)
class Refused:
    """The candidate is at fault."""

    outcome: Outcome
    kind: Literal["refused"] = "refused"


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """The family or the machine is at fault: no candidate can be judged here until it is repaired.

    Attributes:
        exhausted: the machine's disk is full; the work is for another machine.
    """

    reason: str
    exhausted: bool = False
    kind: Literal["trouble"] = "trouble"


@dataclass(frozen=True, kw_only=True)
class Unfit:
    """The device is at fault: even a known kernel does not succeed on it."""

    reason: str
    kind: Literal["unfit"] = "unfit"


Reply: TypeAlias = Ready | Verified | Sampled | Compared | Saved | Refused | Trouble | Unfit

REQUESTS: TypeAdapter[Request] = TypeAdapter(Request, config={"defer_build": True})
REPLIES: TypeAdapter[Reply] = TypeAdapter(Reply, config={"defer_build": True})


def encode(message: Request | Reply, adapter: TypeAdapter[Any]) -> bytes:
    """Return a message as one line."""
    return adapter.dump_json(message) + b"\n"
