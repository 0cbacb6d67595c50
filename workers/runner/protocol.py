"""Messages between a slot and its runner. Each message is one line of JSON in a pipe.

The runner may execute malicious machine code, so the slot never unpickles its replies.
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
from evo.trial.results import OutputChecks, OverwriteCheck, Repetition
from evo.trial.timing import Bars, Timing
from workers.build.kernel import KernelFile


@dataclass(frozen=True, kw_only=True)
class CasePlan:
    """One correctness case. The first case of a request is the searched problem, which is also timed.

    Attributes:
        distribution: name of the distribution of the inputs, for reference.py.
        seeds: seeds of random generators. The inputs are drawn once with each seed.
        operands: inputs and outputs of the problem as the family declares them. A kernel need not take all of them.
        mixed: True if parts of the inputs may be replaced with parts of the inputs of other cases.
        others: distributions of all cases that may be mixed, including cases that this process does not use.
    """

    name: str
    distribution: str
    problem: Mapping[str, Value]
    seeds: tuple[tuple[int, ...], ...]
    operands: tuple[Operand, ...]
    mixed: bool = True
    others: tuple[str, ...] = ()

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """Operands that are compared with the results of ``reference()``."""
        return tuple(each for each in self.operands if each.role in JUDGED and each.tolerance is not None)

    @property
    def verified(self) -> tuple[Operand, ...]:
        """Operands that ``verify()`` checks."""
        return tuple(each for each in self.operands if each.verified)


@dataclass(frozen=True, kw_only=True)
class Prove:
    """Request to open the device and to run a known-good kernel on it. It must precede `Open`.

    Attributes:
        folder: cache folder of the worker.
    """

    device: Device
    objective: Objective
    folder: str
    kind: Literal["prove"] = "prove"


@dataclass(frozen=True, kw_only=True)
class Open:
    """Request to compute inputs and expected outputs of a problem. `Prove` must precede it.

    Attributes:
        reference: path of the family's reference.py.
        folder: cache folder of the worker.
        memory_limit_bytes: memory in bytes that the runner may allocate after it has computed the expected outputs.
        reentrant: False if the family declares that two threads must not call its kernels at the same time.
        fixed: True for a variant, whose author cannot change family.toml. Error messages then do not suggest a change.
        process: number of the process within a job. Processes with the same cases but different numbers make different
            random choices, e.g. the order of timers in a round.
        modules: Python modules that the runner imports while it computes the expected outputs.
        keeps_memory: True to reuse the memory of freed arrays, which is faster. False if the runner times baselines:
            their times include the time that the system needs to provide new memory.
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
    keeps_memory: bool = False
    kind: Literal["open"] = "open"

    @property
    def seed(self) -> list[int]:
        """Seed of all random choices of the process, except the inputs of the cases."""
        return [*self.cases[0].seeds[0], self.process]


@dataclass(frozen=True, kw_only=True)
class Prepare:
    """Request to compute inputs and expected outputs for a later `Open` request, while another runner may measure.

    The runner uses a GPU only if no other process has locked it.
    """

    terms: Open
    kind: Literal["prepare"] = "prepare"


@dataclass(frozen=True, kw_only=True)
class Load:
    """Request to import modules in advance, before a search is known."""

    modules: tuple[str, ...]
    kind: Literal["load"] = "load"


@dataclass(frozen=True, kw_only=True)
class Draw:
    """Request to draw the first inputs of each case for `Save` requests, without a device or expected outputs."""

    terms: Open
    kind: Literal["draw"] = "draw"


@dataclass(frozen=True, kw_only=True)
class Verify:
    """Request to load a candidate and to verify it on every case for which it has a kernel.

    Attributes:
        candidate: name of the candidate in later requests.
        kernels: kernels by case name.
        launches: number of calls with the first inputs of each case.
        deferred: True to postpone the checks with mixed inputs and with two threads. `Measure` then makes these checks
            if early samples show that the candidate may be among the fastest.
        hopeless_us: call time in µs above which the verification stops; None for no limit. See `evo.trial.timing.Bars`.
        cold_ahead: True to allocate the buffer sets for cold calls during the verification. False to allocate them
            later, because the candidate may be too slow to need them.
    """

    candidate: str
    kernels: Mapping[str, KernelFile]
    launches: int = 3
    deferred: bool = False
    hopeless_us: float | None = None
    cold_ahead: bool = False
    kind: Literal["verify"] = "verify"


@dataclass(frozen=True, kw_only=True)
class Measure:
    """Request to time a verified candidate in the quick gate.

    Attributes:
        samples: number of samples in the cache mode of the objective (hot or cold).
        other_samples: number of samples in the other cache mode.
        bars: times of a call above which sampling is shortened or stopped.
    """

    candidate: str
    samples: int
    other_samples: int
    bars: Bars = field(default_factory=Bars)
    kind: Literal["measure"] = "measure"


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Request to time candidates and, if requested, baselines in interleaved rounds.

    A *series* contains the samples of a candidate, one per round. A candidate may have two independent series. The
    *overwrite check* finds kernels that do less work if an output already holds the result (see `OverwriteCheck`).

    Attributes:
        series: name of the candidate, by name of the series.
        rounds: maximum number of rounds.
        baselines: True to time baselines.
        only: name of the only baseline to time. If None, all baselines are timed.
        overwrite_check: name of the series that the overwrite check examines, or None.
        new_inputs: name of the series whose kernel is also timed on new inputs, or None. The overwrite check times its
            kernel on new inputs in any case.
        policy: policy of the search, with the limits of the checks, and the rules that determine the number of rounds.
        inputs: maximum number of new inputs on which the kernel of the series ``challenger`` is verified after the
            rounds, if time permits.
        budget_s: time for the rounds in seconds. Baselines that would exceed it are omitted, unless `only` requests
            them or only baselines are timed. If the remaining kernels exceed it, the number of rounds is reduced to at
            least `Policy.least_rounds`.
    """

    series: Mapping[str, str]
    rounds: int
    baselines: bool
    budget_s: float
    only: str | None = None
    overwrite_check: str | None = None
    new_inputs: str | None = None
    inputs: int = 0
    policy: Policy = field(default_factory=Policy)
    kind: Literal["compare"] = "compare"


@dataclass(frozen=True, kw_only=True)
class Save:
    """Request to write the inputs of a case to a folder, as ``NAME.bin``. It is only allowed after a `Draw` request."""

    case: str
    folder: str
    kind: Literal["save"] = "save"


Request: TypeAlias = Prove | Load | Prepare | Draw | Open | Verify | Measure | Compare | Save


@dataclass(frozen=True, kw_only=True)
class Ready:
    """Reply to a `Prove`, `Open`, `Prepare`, `Load` or `Draw` request that has succeeded."""

    kind: Literal["ready"] = "ready"


@dataclass(frozen=True, kw_only=True)
class Verified:
    """Reply to `Verify`: the candidate is correct on all requested cases. `cases` lists the errors of its outputs."""

    cases: tuple[CaseError, ...]
    kind: Literal["verified"] = "verified"


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """Reply to `Measure` with the samples of the quick gate.

    Fewer samples are taken if the candidate is slower than a threshold of `Measure.bars`.

    Attributes:
        timing: samples in the cache mode of the objective (hot or cold).
        other: samples in the other cache mode, or None if fewer samples were taken.
        pruned: True if sampling was stopped because the candidate is slower than `Bars.prune_us`.
        environment: facts about the machine during the samples, and about the checks that the candidate passed.
    """

    timing: Timing
    other: Timing | None = None
    pruned: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    kind: Literal["sampled"] = "sampled"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Reply to `Compare` with the samples of all series and baselines.

    Attributes:
        series: samples by name of the series. Sample i was taken in round i.
        baselines: samples by name of the baseline.
        unavailable: reasons why the baselines that are not in `baselines` were not timed, by name of the baseline.
        overwrite_check: result of the overwrite check, or None if it was not requested.
        repetition: times on new and known inputs. None if they were not requested, or if the kernel has no inputs.
        answers: results of the output checks, by name of the candidate. Candidates with wrong outputs are also timed.
        seconds: durations of the steps of the comparison in seconds, in order.
    """

    series: Mapping[str, Timing]
    baselines: Mapping[str, Timing] = field(default_factory=dict)
    unavailable: Mapping[str, str] = field(default_factory=dict)
    overwrite_check: OverwriteCheck | None = None
    repetition: Repetition | None = None
    answers: Mapping[str, OutputChecks] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    kind: Literal["compared"] = "compared"


@dataclass(frozen=True, kw_only=True)
class Saved:
    """Reply to `Save`: the inputs were written to the folder."""

    kind: Literal["saved"] = "saved"


@dataclass(frozen=True, kw_only=True)
class Refused:
    """Reply if the candidate is faulty. `outcome` is the outcome of its trial."""

    outcome: Outcome
    kind: Literal["refused"] = "refused"


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """Reply if the family or the machine is faulty, so that no candidate can be evaluated until the fault is repaired.

    Attributes:
        exhausted: True if the disk of the machine is full, over a quota, read-only or mounted ``noexec``. A different
            machine must then execute the job.
    """

    reason: str
    exhausted: bool = False
    kind: Literal["trouble"] = "trouble"


@dataclass(frozen=True, kw_only=True)
class Unfit:
    """Reply if the device is faulty, i.e. a known-good kernel fails on it."""

    reason: str
    kind: Literal["unfit"] = "unfit"


Reply: TypeAlias = Ready | Verified | Sampled | Compared | Saved | Refused | Trouble | Unfit

REQUESTS: TypeAdapter[Request] = TypeAdapter(Request, config={"defer_build": True})
REPLIES: TypeAdapter[Reply] = TypeAdapter(Reply, config={"defer_build": True})


def encode(message: Request | Reply, adapter: TypeAdapter[Any]) -> bytes:
    """Serialize a message as one line."""
    return adapter.dump_json(message) + b"\n"
