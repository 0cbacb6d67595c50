"""Report on a confirmation: times of challenger and incumbent, all other evidence, and time by stage."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from evo.trial.outcome import CaseError, Outcome
from evo.trial.timing import Timing


@dataclass(frozen=True, kw_only=True)
class Stages:
    """Seconds that a job spent in each stage.

    Attributes:
        wait_s: waiting for a compiler, for other trials of the batch, and for the device.
        total_s: time from the arrival of the claim to the end of the work.
        overhead_s: time the search lost on this trial, as docs/reference/measuring.md defines it; None: not known.
    """

    render_s: float = 0.0
    compile_s: float = 0.0
    verify_s: float = 0.0
    measure_s: float = 0.0
    wait_s: float = 0.0
    total_s: float = 0.0
    overhead_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of a confirmation.

    Attributes:
        process: number of the fresh process that ran it; 0: it ran after the processes.
        name: e.g. ``start``, ``device``, ``references``, ``verify challenger``, ``rounds``, ``sanitizers``.
    """

    process: int
    name: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Sanitized:
    """Findings of one sanitizer in runs of the challenger.

    Attributes:
        findings: one line per finding.
        skipped: why the sanitizer did not run or did not finish; None if it finished.
        cases: correctness cases that it ran on; empty if that is not known.
        left_out: cases for which there was no time.
    """

    tool: str
    findings: tuple[str, ...] = ()
    skipped: str | None = None
    cases: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Profiled:
    """Counters of one launch on the searched problem.

    Attributes:
        figures: values by the names of `evo.device.counters.FIGURES`; counters that the device lacks are left out.
        skipped: why there are no counters; None if there are.
    """

    tool: str
    figures: Mapping[str, float] = field(default_factory=dict)
    skipped: str | None = None


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """The comparison of the confirmation in one more fresh process; entry i of both series was taken in round i.

    Attributes:
        other: times of the kernel that is compared; None if there was none.
    """

    challenger: Timing
    other: Timing | None


@dataclass(frozen=True, kw_only=True)
class Repetition:
    """Times of the challenger on new and on repeated inputs; entry i of each was taken in round i.

    Attributes:
        new: calls on inputs that the kernel was not called with before.
        known: calls on inputs with which the kernel was timed before.
        elements: number of elements of all inputs of one call.
        same: as many calls on one set of buffers; None in older reports.
    """

    new: Timing
    known: Timing
    elements: int
    same: Timing | None = None


@dataclass(frozen=True, kw_only=True)
class Changing:
    """Consecutive calls while their inputs are written at the same addresses; entry i of both was taken in round i.

    Attributes:
        different: two different inputs are written alternately.
        same: the same inputs are written repeatedly.
    """

    different: Timing
    same: Timing


@dataclass(frozen=True, kw_only=True)
class OverwriteCheck:
    """Calls of the challenger on separate outputs with known contents; entry i of both was taken in round i.

    Attributes:
        answered: all outputs held the right result before the call, as in a timed loop.
        poisoned: the outputs held no valid result before the call.
        repeated: as many calls on one set of outputs; None if it was not requested.
        repetition: calls on repeated inputs; None if the kernel has no inputs, or in older reports.
        changing: calls whose inputs change between calls; None if the device cannot do that, or in older reports.
        unclear: text on repeated calls that were faster than the limit allows while other programs used the device;
            empty if there were none.
    """

    answered: Timing
    poisoned: Timing
    repeated: Timing | None = None
    repetition: Repetition | None = None
    changing: Changing | None = None
    unclear: str = ""


@dataclass(frozen=True, kw_only=True)
class OutputChecks:
    """Correctness of the outputs of timed calls.

    Attributes:
        judged: number of calls whose outputs were checked: the last one of each sample, and all of `OverwriteCheck`.
        wrong: number of judged calls with wrong outputs.
        first: description of the first fault.
        inputs: number of different inputs of the judged calls; 0: not known.
    """

    judged: int
    wrong: int = 0
    first: str = ""
    inputs: int = 0


@dataclass(frozen=True, kw_only=True)
class ConfirmReport:
    """Report on a confirmation. Samples are interleaved: entry i of every timing was taken in round i.

    Attributes:
        challenger_again: a second series of the challenger in the same rounds, for the A/A spread of the session.
        uncovered: reason why the challenger cannot run a case, by the case's name; these cases were not tested.
        overwrite_check: times that show whether calls do less work if their outputs already hold the result.
        answers: correctness of the timed calls of all processes.
        repeats: results of further fresh processes, which run only if the first process would lead to a promotion.
        repeated_against: kernel with which `repeats` compared: ``incumbent``, a baseline's name, or None for no
            comparison.
        profiles: by ``challenger`` and ``incumbent``; empty if this kind of device has no profiler.
        failure: set, with the timings None, when challenger or incumbent could not be measured.
        failed: which of the two failed.
        sanitizers: tools under which the challenger ran; empty if this kind of device has none.
        steps: steps of the confirmation with their times, in order; empty in older reports.
        resources: resources of the builds, by ``challenger`` and ``incumbent``; empty in older reports.
    """

    challenger: Timing | None = None
    challenger_again: Timing | None = None
    incumbent: Timing | None = None
    baselines: Mapping[str, Timing] = field(default_factory=dict)
    cases: tuple[CaseError, ...] = ()
    uncovered: Mapping[str, str] = field(default_factory=dict)
    overwrite_check: OverwriteCheck | None = None
    answers: OutputChecks | None = None
    sanitizers: tuple[Sanitized, ...] = ()
    repeats: tuple[Repeat, ...] = ()
    repeated_against: str | None = None
    profiles: Mapping[str, Profiled] = field(default_factory=dict)
    failure: Outcome | None = None
    failed: Literal["challenger", "incumbent"] | None = None
    stages: Stages = field(default_factory=Stages)
    steps: tuple[Step, ...] = ()
    artefacts: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    kind: Literal["confirm"] = "confirm"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], Any]) -> Any:
        """Return the schema by which Pydantic reads reports, those of older databases and workers included."""
        from pydantic_core import core_schema  # runners use these classes without Pydantic

        return core_schema.no_info_before_validator_function(_renamed, handler(source))


_FORMER_NAMES = {"witness": "overwrite_check"}
"""Fields by the names that they had up to 0.4."""


def _renamed(document: Any) -> Any:
    """Return a document of an older version with the current names of its fields."""
    if not isinstance(document, dict):
        return document
    return {_FORMER_NAMES.get(name, name): value for name, value in document.items()}
