"""Protocol between a slot and its runner. Each message is one line of JSON, sent through a pipe.

The runner may execute hostile machine code, so the slot parses its replies as JSON and never as pickles.
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
        seeds: seeds of the random generators, one for each set of inputs.
        operands: inputs and outputs of the problem as the family declares them, including operands that a kernel does
            not take.
        mixed: True if elements and rows of the inputs may be replaced by elements and rows of further cases.
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
    """Request to open the device and to run a known-good kernel on it. This is the first request to a runner.

    Attributes:
        folder: cache folder of the worker.
    """

    device: Device
    objective: Objective
    folder: str
    kind: Literal["prove"] = "prove"


@dataclass(frozen=True, kw_only=True)
class Open:
    """Request to compute inputs and expected outputs for the device. This request follows `Prove`.

    Attributes:
        reference: path of the family's reference.py.
        folder: cache folder of the worker.
        memory_limit_bytes: memory that the runner may allocate after this request, in bytes.
        reentrant: False if the family declares that two threads must not call its kernels at the same time.
        fixed: True for a variant, whose author cannot edit family.toml. Error messages then suggest no change of
            family.toml.
        process: number of the process within a job. Processes with the same cases but different numbers draw different
            orders of rounds, further inputs, and changes between samples.
        modules: Python modules that the process will need. The process imports them while it computes the expected
            outputs.
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
    """Request to compute inputs and expected outputs of a later `Open` request in advance, without the device.

    Another runner may be measuring on the device, so the expected outputs are computed on CPU cores.
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
    """Request to draw the first inputs of each case for `Save` requests. No device is needed, and no expected outputs
    are computed.
    """

    terms: Open
    kind: Literal["draw"] = "draw"


@dataclass(frozen=True, kw_only=True)
class Verify:
    """Request to load a candidate and to verify it on every case for which it has a kernel.

    Attributes:
        candidate: name of the candidate in later requests.
        kernels: kernels by case name.
        launches: number of calls with the first inputs of each case. All calls must give the same result.
        deferred: True to postpone the checks with mixed inputs and with two threads. `Measure` makes these checks if
            early samples show that the candidate may be among the fastest.
        hopeless_us: call time in µs above which the verification stops, see `evo.trial.timing.Bars`.
    """

    candidate: str
    kernels: Mapping[str, KernelFile]
    launches: int = 3
    deferred: bool = False
    hopeless_us: float | None = None
    kind: Literal["verify"] = "verify"


@dataclass(frozen=True, kw_only=True)
class Measure:
    """Request to time a verified candidate in the quick gate.

    Attributes:
        samples: number of samples in the cache mode that ranks trials.
        other_samples: number of samples in the second cache mode.
        bars: times above which sampling is shortened or stopped.
    """

    candidate: str
    samples: int
    other_samples: int
    bars: Bars = field(default_factory=Bars)
    kind: Literal["measure"] = "measure"


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Request to time several series and, if requested, baselines in interleaved rounds. Sample i of each series was
    taken in round i.

    Attributes:
        series: name of the candidate by name of the series. Two series of the same candidate are timed independently.
        only: name of the only baseline to time. If None, all baselines are timed.
        overwrite_check: name of the series for which the overwrite check is made. If None, the check is not made.
        policy: limits of the overwrite check and the minimum number of rounds.
        inputs: number of further inputs on which the challenger is verified after the rounds, if there is time left.
        budget_s: time for the rounds, in seconds. Baselines that would exceed the budget are left out. If only
            baselines are timed, the number of rounds is reduced, and no baseline is left out.
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
    """Samples of the quick gate. If a time exceeds a threshold of `Measure.bars`, fewer samples are taken.

    Attributes:
        timing: samples in the cache mode that ranks trials.
        other: samples in the second cache mode; None if the candidate was pruned.
        pruned: True if sampling was stopped because the candidate is slower than `Bars.prune_us`.
        environment: observations about the machine during the samples.
    """

    timing: Timing
    other: Timing | None = None
    pruned: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    kind: Literal["sampled"] = "sampled"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Samples of interleaved rounds, by series and by baseline. `unavailable` contains the reasons why the remaining
    baselines were not timed.

    Attributes:
        answers: results of the output checks by candidate. Candidates with wrong outputs were also timed.
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
        exhausted: True if the disk of the machine is full, so that the work must be done on another machine.
    """

    reason: str
    exhausted: bool = False
    kind: Literal["trouble"] = "trouble"


@dataclass(frozen=True, kw_only=True)
class Unfit:
    """The device is faulty, because a known-good kernel fails on it."""

    reason: str
    kind: Literal["unfit"] = "unfit"


Reply: TypeAlias = Ready | Verified | Sampled | Compared | Saved | Refused | Trouble | Unfit

REQUESTS: TypeAdapter[Request] = TypeAdapter(Request, config={"defer_build": True})
REPLIES: TypeAdapter[Reply] = TypeAdapter(Reply, config={"defer_build": True})


def encode(message: Request | Reply, adapter: TypeAdapter[Any]) -> bytes:
    """Serialize a message as one line."""
    return adapter.dump_json(message) + b"\n"
