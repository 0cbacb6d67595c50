"""Outcomes of trials, a closed union. The failure of a candidate is data, never an exception and never a score
of zero.
"""

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
        rel_l2: ``‖out − ref‖ / ‖ref‖``; None when the output holds a NaN or infinity.
        max_abs: largest absolute difference; None when the output holds a NaN or infinity.
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
    """Correct on every case, and timed. Trials are ranked by `timing`; `other` was taken in the other cache mode.

    Attributes:
        mechanisms: mechanisms that the binary's instructions use: ``mma``, ``SIMD 512`` …; empty if they cannot be
            read.
        cost: value by which the trial is ranked if the search has a metric (`evo.promotion.goal`); None: by its time.
        second_cost: cost under the search's second objective; None if it has only one objective.
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
    """Compiled for a target and never run: neither its results nor its time are known.

    Attributes:
        time_us: time that `evo.device.estimate` estimates; comparable only with estimates for the same problem and
            target.
        resources: registers, shared memory and so on of the build, as the compiler reports them.
        parts: the quantities the estimate was computed from, by name.
        mechanisms, cost, second_cost: as in `Measured`.
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
    """Stopped early because it was too slow to matter; holds the samples taken so far.

    Attributes:
        verified: True if it was correct on all cases; False if it was so slow that it was stopped after its first calls
            on the first case, which were correct.
    """

    timing: Timing
    threshold_us: float
    verified: bool = True
    kind: Literal["pruned"] = "pruned"


@dataclass(frozen=True, kw_only=True)
class InvalidConfig:
    """Refused before compilation: the config violates a constraint, or the template did not render."""

    reason: str
    kind: Literal["invalid_config"] = "invalid_config"


@dataclass(frozen=True, kw_only=True)
class CompileFailed:
    """The compiler rejected the source or ran out of time."""

    log: str
    kind: Literal["compile_failed"] = "compile_failed"


@dataclass(frozen=True, kw_only=True)
class OverResources:
    """Compiled, but the target cannot launch it, or it exceeds a resource limit of the policy."""

    resource: str
    used: float
    limit: float
    kind: Literal["over_resources"] = "over_resources"


@dataclass(frozen=True, kw_only=True)
class WrongAnswer:
    """A case failed. `reason` names the rule: tolerance, unwritten output, guard band, modified input, …"""

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
    """The family's reference.py failed, so nothing was judged. The outcome is no information about the config."""

    reason: str
    kind: Literal["reference_failed"] = "reference_failed"


@dataclass(frozen=True, kw_only=True)
class TimedOut:
    """A stage exceeded its hard limit and its process was killed."""

    stage: str
    limit_s: float
    kind: Literal["timed_out"] = "timed_out"


@dataclass(frozen=True, kw_only=True)
class Crashed:
    """A process or the device failed while the candidate ran.

    Attributes:
        reason: names the signal or the device's error.
        killed: the process that ended by a signal which other processes send (SIGKILL, SIGTERM, …); None: no such
            signal. The candidate is then blamed only because several attempts ended in this way.
    """

    stage: str
    reason: str
    killed: Literal["kernel", "runner"] | None = None
    kind: Literal["crashed"] = "crashed"


@dataclass(frozen=True, kw_only=True)
class Impossible:
    """Faster than the roofline allows, so it did not do the work."""

    timing: Timing
    floor_us: float
    kind: Literal["impossible"] = "impossible"


@dataclass(frozen=True, kw_only=True)
class InvalidMeasurement:
    """The times contradict another clock or each other, or the search's metric has no value: `reason` says which."""

    reason: str
    kind: Literal["invalid_measurement"] = "invalid_measurement"


@dataclass(frozen=True, kw_only=True)
class Abandoned:
    """The worker was lost as often as the policy allows. The outcome is no information about the config."""

    worker_losses: int
    kind: Literal["abandoned"] = "abandoned"


@dataclass(frozen=True, kw_only=True)
class Cancelled:
    """The search was cancelled before the trial ended. The outcome is no information about the config."""

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
