"""Messages between the service and its workers; both sides import these and nothing of each other."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from evo.device import Device
from evo.objective import Objective
from evo.outcome import CaseError, Outcome
from evo.policy import Policy
from evo.timing import Bars, Timing
from evo.trial import Config, Value


@dataclass(frozen=True, kw_only=True)
class FamilyRef:
    """Which family, exactly.

    Attributes:
        digest: over spec, templates and includes; a worker refuses a lease whose digest it cannot reproduce.
        location: absolute path of the folder or recording on the submitting machine, or ``bundle:`` and the digest of
            an artefact of the service; None for a built-in family.
    """

    name: str
    digest: str
    location: str | None = None


@dataclass(frozen=True, kw_only=True)
class SearchTerms:
    """What every job of one search has in common."""

    search_id: int
    family: FamilyRef
    problem: Mapping[str, Value]
    device: Device
    objective: Objective
    policy: Policy
    seed: int


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Take one trial up the ladder: compile, resources, verify, quick gate."""

    number: int
    config: Config
    bars: Bars = field(default_factory=Bars)
    kind: Literal["evaluate"] = "evaluate"


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """Time every baseline of the family that can run here."""

    kind: Literal["baseline"] = "baseline"


@dataclass(frozen=True, kw_only=True)
class Confirm:
    """Interleave challenger, incumbent and baselines in a fresh process with fresh inputs."""

    challenger: Config
    incumbent: Config | None
    seed: int
    kind: Literal["confirm"] = "confirm"


@dataclass(frozen=True, kw_only=True)
class Ablate:
    """Interleave a champion with configs that differ from it by one change each, in a fresh process."""

    champion: Config
    changed: tuple[Config, ...]
    seed: int
    kind: Literal["ablate"] = "ablate"


Job: TypeAlias = Evaluate | Baseline | Confirm | Ablate


@dataclass(frozen=True, kw_only=True)
class Stages:
    """Seconds a job spent where.

    Attributes:
        wait_s: for its turn to be built, for the others of its batch, for the device.
        total_s: from the claim's arrival to the end of the work.
        overhead_s: that the search lost over this trial, as docs/reference/measuring.md defines it; None: not known.
    """

    render_s: float = 0.0
    compile_s: float = 0.0
    verify_s: float = 0.0
    measure_s: float = 0.0
    wait_s: float = 0.0
    total_s: float = 0.0
    overhead_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class EvaluateReport:
    """How a trial ended.

    Attributes:
        binary_digest: of the compiled artefact; equal binaries are measured once.
        artefacts: name (``source``, ``compiler.log``, ``binary``) → digest in the artefact store.
        environment: clocks, temperature, versions at the time of measuring.
    """

    outcome: Outcome
    stages: Stages = field(default_factory=Stages)
    binary_digest: str | None = None
    artefacts: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    kind: Literal["evaluate"] = "evaluate"


@dataclass(frozen=True, kw_only=True)
class BaselineReport:
    """Times by baseline name; those that could not run are named with the reason."""

    timings: Mapping[str, Timing]
    unavailable: Mapping[str, str] = field(default_factory=dict)
    stages: Stages = field(default_factory=Stages)
    environment: Mapping[str, str] = field(default_factory=dict)
    kind: Literal["baseline"] = "baseline"


@dataclass(frozen=True, kw_only=True)
class Sanitized:
    """What a tool that watches for forbidden behaviour found in one run of the challenger.

    Attributes:
        findings: one line each.
        skipped: why it did not run or did not finish; None when it did.
    """

    tool: str
    findings: tuple[str, ...] = ()
    skipped: str | None = None


@dataclass(frozen=True, kw_only=True)
class Profiled:
    """What a profiler counted in one launch on the searched problem.

    Attributes:
        figures: by the names of `evo.figure.FIGURES`; those the device does not count are left out.
        skipped: why there are none; None when there are.
    """

    tool: str
    figures: Mapping[str, float] = field(default_factory=dict)
    skipped: str | None = None


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """The same comparison in one more fresh process; entry i of both was taken in round i.

    Attributes:
        other: None where there was nothing to compare with.
    """

    challenger: Timing
    other: Timing | None


@dataclass(frozen=True, kw_only=True)
class Witness:
    """Calls of the challenger, each on outputs of its own, filled before; entry i of both was taken in round i.

    Attributes:
        answered: all outputs held the right answer, as earlier calls leave it in a timed loop.
        poisoned: they held nothing of use.
    """

    answered: Timing
    poisoned: Timing


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What the challenger's timed calls left in their outputs.

    Attributes:
        judged: calls whose outputs were looked at: the last one of each sample, and all those of `Witness`.
        wrong: of these.
        first: what was wrong with the first one.
    """

    judged: int
    wrong: int = 0
    first: str = ""


@dataclass(frozen=True, kw_only=True)
class ConfirmReport:
    """Interleaved samples: entry i of every timing was taken in round i.

    Attributes:
        challenger_again: a second series of the challenger in the same rounds: the A/A spread of the session.
        witness: whether calls do less work where their outputs hold the answer already.
        answers: whether the calls of all processes that were timed gave right answers.
        repeats: further fresh processes, where the challenger looked like a champion.
        repeated_against: what it was compared with there: ``incumbent``, a baseline's name, or None for nothing.
        profiles: by ``challenger`` and ``incumbent``; empty where this kind of device has no profiler.
        failure: set, and the timings None, when challenger or incumbent could not be measured.
        failed: which of the two it was.
        sanitizers: tools the challenger ran under; empty where this kind of device has none.
    """

    challenger: Timing | None = None
    challenger_again: Timing | None = None
    incumbent: Timing | None = None
    baselines: Mapping[str, Timing] = field(default_factory=dict)
    cases: tuple[CaseError, ...] = ()
    witness: Witness | None = None
    answers: Answers | None = None
    sanitizers: tuple[Sanitized, ...] = ()
    repeats: tuple[Repeat, ...] = ()
    repeated_against: str | None = None
    profiles: Mapping[str, Profiled] = field(default_factory=dict)
    failure: Outcome | None = None
    failed: Literal["challenger", "incumbent"] | None = None
    stages: Stages = field(default_factory=Stages)
    artefacts: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    kind: Literal["confirm"] = "confirm"


@dataclass(frozen=True, kw_only=True)
class Ablated:
    """One changed config beside its champion: entry i of every timing was taken in round i.

    Attributes:
        champion_again: a second series of the champion in the same rounds.
        failure: why the changed config has no times.
        same_binary: it compiles to the very binary of the champion, so there was nothing to time.
    """

    champion: Timing | None = None
    champion_again: Timing | None = None
    changed: Timing | None = None
    failure: Outcome | None = None
    same_binary: bool = False


@dataclass(frozen=True, kw_only=True)
class AblateReport:
    """What became of each changed config, in the order of the job.

    Attributes:
        failure: why the champion itself could not be measured; `changes` is empty then.
    """

    changes: tuple[Ablated, ...] = ()
    failure: Outcome | None = None
    stages: Stages = field(default_factory=Stages)
    environment: Mapping[str, str] = field(default_factory=dict)
    kind: Literal["ablate"] = "ablate"


Report: TypeAlias = EvaluateReport | BaselineReport | ConfirmReport | AblateReport


@dataclass(frozen=True, kw_only=True)
class Lease:
    """One job, granted to one slot of one worker until it expires.

    Attributes:
        attempt_id: identifies the lease; `token` fences it: a report with another token is stale.
        lease_s: seconds until it expires unless a heartbeat renews it.
    """

    attempt_id: int
    token: str
    lease_s: float
    terms: SearchTerms
    job: Job


Activity: TypeAlias = Literal["idle", "working", "waiting", "testing", "quarantined"]
"""What a slot does; ``waiting``: another process holds its device, ``testing``: a known kernel must succeed first."""


@dataclass(frozen=True, kw_only=True)
class SlotReport:
    """What a slot says of itself with each heartbeat.

    Attributes:
        detail: more of it in words, e.g. which process holds the device.
        attempt_id: the lease that it performs now, which alone the detail is about; others may wait behind it.
        fault: why the device is not to be trusted any more; said until the service has set it aside.
    """

    device_uuid: str
    activity: Activity
    detail: str | None = None
    attempt_id: int | None = None
    fault: str | None = None


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A report as a worker hands it in, with the token that says for which lease."""

    attempt_id: int
    token: str
    report: Report


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What became of one delivery of several.

    Attributes:
        status: ``accepted``; ``repeated``: it had been taken before; ``stale``: the lease ended before, drop the work;
            ``unknown``: no such attempt; ``refused``: the report does not answer the job, and never will.
        detail: why it was not taken; empty if it was.
    """

    attempt_id: int
    status: Literal["accepted", "repeated", "stale", "unknown", "refused"]
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class HeartbeatReply:
    """What the service wants the worker to know.

    Attributes:
        cancel: attempts to drop.
        drain: ask for no more work.
        quarantined: UUIDs of the devices that are set aside until a person clears them.
    """

    cancel: tuple[int, ...] = ()
    drain: bool = False
    quarantined: tuple[str, ...] = ()
