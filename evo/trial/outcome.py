"""Outcomes of trials: a fixed set of data classes. A failed candidate is an outcome, never an exception."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from evo.trial.timing import Timing

RESOURCES = ("registers", "shared_memory_bytes", "stack_bytes", "spill_bytes", "occupancy")
"""Names of the resources of a build that CUDA compilers report."""


@dataclass(frozen=True, kw_only=True)
class CaseError:
    """Error of one output in one correctness case, compared with the float64 reference.

    Attributes:
        rel_l2: ``‖out − ref‖ / ‖ref‖``, None if the output contains a NaN or infinity.
        max_abs: largest absolute difference, None if the output contains a NaN or infinity.
        rel_l2_limit, max_abs_limit: limits set by the family's tolerance.
    """

    case: str
    output: str
    rel_l2: float | None
    max_abs: float | None
    rel_l2_limit: float
    max_abs_limit: float

    @property
    def passed(self) -> bool:
        return (
            self.rel_l2 is not None
            and self.max_abs is not None
            and self.rel_l2 <= self.rel_l2_limit
            and self.max_abs <= self.max_abs_limit
        )


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The kernel is correct on every case, and was timed.

    Attributes:
        timing: times in the cache mode of the objective; trials are ranked by these times.
        other: times in the other cache mode (hot instead of cold, or cold instead of hot); None if not measured.
        resources: registers, shared memory and other resources of the build, by name; empty if the compiler reports
            none.
        mechanisms: hardware mechanisms that the binary's instructions use, e.g. ``mma`` or ``SIMD 512``; empty if the
            instructions cannot be read.
        cost: cost under the search's metric (`evo.promotion.goal`). None if trials are ranked by time.
        second_cost: cost under the search's second objective, None if the search has only one objective.
    """

    timing: Timing
    cases: tuple[CaseError, ...] = ()
    other: Timing | None = None
    resources: Mapping[str, float] = field(default_factory=dict)
    mechanisms: tuple[str, ...] = ()
    cost: float | None = None
    second_cost: float | None = None
    kind: Literal["measured"] = "measured"


@dataclass(frozen=True, kw_only=True)
class Estimated:
    """The kernel was compiled for a target GPU but never run: nothing was verified, and the time is an estimate.

    Attributes:
        time_us: time estimated by `evo.device.estimate`. It is comparable only with estimates for the same problem and
            target.
        resources: registers, shared memory and other resources of the build, as reported by the compiler.
        parts: quantities from which the estimate was computed, by name.
        mechanisms: hardware mechanisms that the binary's instructions use; empty if the instructions cannot be read.
        cost: cost under the search's metric. None if trials are ranked by time.
        second_cost: cost under the search's second objective, None if the search has only one objective.
    """

    time_us: float
    resources: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)
    mechanisms: tuple[str, ...] = ()
    cost: float | None = None
    second_cost: float | None = None
    kind: Literal["estimated"] = "estimated"


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """The trial was stopped early because its kernel was much slower than the best trials.

    Attributes:
        timing: samples taken until the trial was stopped.
        threshold_us: time above which the trial was stopped, in µs.
        verified: True if all cases were correct. False if the trial was stopped after its first calls on the first
            case, which were correct.
    """

    timing: Timing
    threshold_us: float
    verified: bool = True
    kind: Literal["pruned"] = "pruned"


@dataclass(frozen=True, kw_only=True)
class InvalidConfig:
    """The config was rejected before compilation: it violates a constraint, or the template cannot be rendered."""

    reason: str
    kind: Literal["invalid_config"] = "invalid_config"


@dataclass(frozen=True, kw_only=True)
class CompileFailed:
    """The compiler rejected the source or exceeded its time limit.

    Attributes:
        decided_by: tunables that decide whether the failing line is compiled and, if the error is a static assertion,
            whether it holds. None if they are unknown.
    """

    log: str
    decided_by: tuple[str, ...] | None = None
    kind: Literal["compile_failed"] = "compile_failed"


@dataclass(frozen=True, kw_only=True)
class OverResources:
    """The kernel was compiled, but the target cannot launch it, or it exceeds a resource limit of the policy.

    Attributes:
        decided_by: tunables in the expression `shared_memory` of the launch if the value of this expression alone
            exceeds the limit. None in all other cases.
    """

    resource: str
    used: float
    limit: float
    decided_by: tuple[str, ...] | None = None
    kind: Literal["over_resources"] = "over_resources"


@dataclass(frozen=True, kw_only=True)
class WrongAnswer:
    """A correctness case failed. `reason` names the rule: tolerance, unwritten output, guard band, modified input, …"""

    reason: str
    cases: tuple[CaseError, ...] = ()
    kind: Literal["wrong_answer"] = "wrong_answer"


@dataclass(frozen=True, kw_only=True)
class LaunchFailed:
    """The kernel could not be loaded or started."""

    reason: str
    kind: Literal["launch_failed"] = "launch_failed"


@dataclass(frozen=True, kw_only=True)
class ReferenceFailed:
    """The family's reference.py failed, so the kernel was not checked. The config is not at fault."""

    reason: str
    kind: Literal["reference_failed"] = "reference_failed"


@dataclass(frozen=True, kw_only=True)
class TimedOut:
    """A stage exceeded its time limit, and its process was killed."""

    stage: str
    limit_s: float
    kind: Literal["timed_out"] = "timed_out"


@dataclass(frozen=True, kw_only=True)
class Crashed:
    """A process or the device failed while the candidate ran.

    Attributes:
        reason: the signal or the device's error.
        killed: the process that was killed by a signal such as SIGKILL, which another program may have sent. Such a
            crash counts against the candidate only if it happens in several attempts. None for all other crashes.
    """

    stage: str
    reason: str
    killed: Literal["kernel", "runner"] | None = None
    kind: Literal["crashed"] = "crashed"


@dataclass(frozen=True, kw_only=True)
class Impossible:
    """The measured time is shorter than the roofline allows, so the kernel cannot have computed everything."""

    timing: Timing
    floor_us: float
    kind: Literal["impossible"] = "impossible"


@dataclass(frozen=True, kw_only=True)
class InvalidMeasurement:
    """The times contradict a second clock or each other, or the metric has no value; `reason` states which."""

    reason: str
    kind: Literal["invalid_measurement"] = "invalid_measurement"


@dataclass(frozen=True, kw_only=True)
class Abandoned:
    """The job lost its worker too often (a limit of the policy). The outcome gives no information about the config."""

    worker_losses: int
    kind: Literal["abandoned"] = "abandoned"


@dataclass(frozen=True, kw_only=True)
class Cancelled:
    """The search was cancelled before the trial ended. The outcome gives no information about the config."""

    kind: Literal["cancelled"] = "cancelled"


Outcome: TypeAlias = (
    Measured
    | Estimated
    | Pruned
    | InvalidConfig
    | CompileFailed
    | OverResources
    | WrongAnswer
    | LaunchFailed
    | ReferenceFailed
    | TimedOut
    | Crashed
    | Impossible
    | InvalidMeasurement
    | Abandoned
    | Cancelled
)
