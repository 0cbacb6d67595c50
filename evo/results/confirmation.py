"""What a worker found out about a challenger: times beside the incumbent's, and every other proof."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from evo.results.stages import Stages
from evo.trial.outcome import CaseError, Outcome
from evo.trial.timing import Timing


@dataclass(frozen=True, kw_only=True)
class Sanitized:
    """What a tool that watches for forbidden behaviour found in runs of the challenger.

    Attributes:
        findings: one line each.
        skipped: why it did not run or did not finish; None when it did.
        cases: correctness cases that it ran on; empty where that is not known.
        left_out: cases that there was no time for.
    """

    tool: str
    findings: tuple[str, ...] = ()
    skipped: str | None = None
    cases: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Profiled:
    """What a profiler counted in one launch on the searched problem.

    Attributes:
        figures: by the names of `evo.device.counters.FIGURES`; those the device does not count are left out.
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
class Repetition:
    """Calls of the challenger on inputs of either kind; entry i of both was taken in round i.

    Attributes:
        new: on inputs that the kernel never met.
        known: on inputs that it was timed on.
        elements: of all inputs of one call.
    """

    new: Timing
    known: Timing
    elements: int


@dataclass(frozen=True, kw_only=True)
class Witness:
    """Calls of the challenger, each on outputs of its own, filled before; entry i of both was taken in round i.

    Attributes:
        answered: all outputs held the right answer, as earlier calls leave it in a timed loop.
        poisoned: they held nothing of use.
        repeated: as many calls on one set of outputs; None where it was not asked for.
        repetition: calls on inputs that are met again; None where the kernel has no inputs, or reports are older.
    """

    answered: Timing
    poisoned: Timing
    repeated: Timing | None = None
    repetition: Repetition | None = None


@dataclass(frozen=True, kw_only=True)
class OutputChecks:
    """What the challenger's timed calls left in their outputs.

    Attributes:
        judged: calls whose outputs were looked at: the last one of each sample, and all those of `Witness`.
        wrong: of these.
        first: what was wrong with the first one.
        inputs: how many different inputs these calls met; 0: not known.
    """

    judged: int
    wrong: int = 0
    first: str = ""
    inputs: int = 0


@dataclass(frozen=True, kw_only=True)
class ConfirmReport:
    """Interleaved samples: entry i of every timing was taken in round i.

    Attributes:
        challenger_again: a second series of the challenger in the same rounds: the A/A spread of the session.
        uncovered: cases the challenger has no kernel for, with the reason: nothing is known of it there.
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
    uncovered: Mapping[str, str] = field(default_factory=dict)
    witness: Witness | None = None
    answers: OutputChecks | None = None
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
