"""How a trial ends: a closed union. A bad candidate is data, never an exception, and never a score of zero."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from evo.trial.timing import Timing


@dataclass(frozen=True, kw_only=True)
class CaseError:
    """How far one output of one correctness case is from the float64 reference.

    Attributes:
        rel_l2: ``‖out − ref‖ / ‖ref‖``; None when the output holds a NaN or infinity.
        max_abs: largest absolute difference; None likewise.
        rel_l2_limit, max_abs_limit: what the family's tolerance allows here.
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
    """Correct on every case, and timed. `timing` is the one the objective ranks by; `other` the other cache mode."""

    timing: Timing
    cases: tuple[CaseError, ...] = ()
    other: Timing | None = None
    resources: Mapping[str, float] = field(default_factory=dict)
    kind: Literal["measured"] = "measured"


@dataclass(frozen=True, kw_only=True)
class Estimated:
    """Compiled for a target and never run: neither its answers nor its time are known.

    Attributes:
        time_us: estimated by `evo.estimate.estimate`; comparable only with estimates of the same problem and target.
        resources: of the build, as the compiler tells them.
        parts: what the estimate was made from, by name.
    """

    time_us: float
    resources: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)
    kind: Literal["estimated"] = "estimated"


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """Correct but hopeless: stopped early, with the samples seen so far."""

    timing: Timing
    threshold_us: float
    kind: Literal["pruned"] = "pruned"


@dataclass(frozen=True, kw_only=True)
class InvalidConfig:
    """Refused before compiling: a constraint, or the template would not render."""

    reason: str
    kind: Literal["invalid_config"] = "invalid_config"


@dataclass(frozen=True, kw_only=True)
class CompileFailed:
    """The compiler refused it, or ran out of its time."""

    log: str
    kind: Literal["compile_failed"] = "compile_failed"


@dataclass(frozen=True, kw_only=True)
class OverResources:
    """Compiles, but cannot launch on the target or breaks a resource gate of the policy."""

    resource: str
    used: float
    limit: float
    kind: Literal["over_resources"] = "over_resources"


@dataclass(frozen=True, kw_only=True)
class WrongAnswer:
    """A case failed: `reason` names the rule (tolerance, unwritten output, guard band, modified input, …)."""

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
    """The family's reference.py could not be run, so nothing was judged; says nothing about the config."""

    reason: str
    kind: Literal["reference_failed"] = "reference_failed"


@dataclass(frozen=True, kw_only=True)
class TimedOut:
    """A stage ran past its hard limit and its process was killed."""

    stage: str
    limit_s: float
    kind: Literal["timed_out"] = "timed_out"


@dataclass(frozen=True, kw_only=True)
class Crashed:
    """A process or the device died under the candidate.

    Attributes:
        reason: names the signal or the device's error.
        killed: the process that ended by a signal which other processes send (SIGKILL, SIGTERM, …); None: no such
            signal. The candidate is then blamed only because several attempts ended so.
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
    """The times contradict another clock, or each other: `reason` says which."""

    reason: str
    kind: Literal["invalid_measurement"] = "invalid_measurement"


@dataclass(frozen=True, kw_only=True)
class Abandoned:
    """Lost with its worker as often as the policy allows; says nothing about the config."""

    worker_losses: int
    kind: Literal["abandoned"] = "abandoned"


@dataclass(frozen=True, kw_only=True)
class Cancelled:
    """The search was cancelled before this trial ended."""

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
