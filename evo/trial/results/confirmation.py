"""Report on a confirmation: times of the challenger and the incumbent, the other evidence, and the time per stage."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from evo.trial.outcome import CaseError, Outcome
from evo.trial.timing import Timing


@dataclass(frozen=True, kw_only=True)
class Stages:
    """Seconds that a job spent in each stage.

    Attributes:
        wait_s: time spent waiting for a compiler, for other jobs of the slot, and for the device.
        total_s: time from the arrival of the lease to the end of the job.
        overhead_s: time for this job in which the slot neither compiled nor used the device, although work was
            available. None if unknown.
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
        process: number of the fresh process that ran the step, counted from 1. 0 if the step ran after all processes.
        name: name of the step, e.g. ``start``, ``device``, ``references``, ``verify challenger`` or ``rounds``.
    """

    process: int
    name: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Sanitized:
    """Findings of one sanitizer in runs of the challenger.

    Attributes:
        findings: one line per finding.
        skipped: reason why the sanitizer did not run or did not finish; None if it finished.
        cases: names of the correctness cases on which it ran; empty if unknown.
        left_out: names of the cases that were skipped for lack of time.
    """

    tool: str
    findings: tuple[str, ...] = ()
    skipped: str | None = None
    cases: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Profiled:
    """Hardware counters of one launch on the searched problem.

    Attributes:
        figures: counter values, by the names in `evo.device.counters.FIGURES`. Counters that the device lacks are
            absent.
        skipped: reason why there are no counters; None if there are counters.
    """

    tool: str
    figures: Mapping[str, float] = field(default_factory=dict)
    skipped: str | None = None


@dataclass(frozen=True, kw_only=True)
class Repetition:
    """Times of the challenger on new and on repeated inputs. Entry i of each series was taken in round i.

    Attributes:
        new: times of calls on inputs that the kernel has never received before.
        known: times of calls on inputs with which the kernel was timed before.
        elements: total number of elements of all inputs of one call.
        same: times of the same number of calls, all on one set of input and output buffers. None in reports of older
            versions.
        unclear: message if calls on new inputs were slower than the limit allows, but other programs may be the cause;
            else empty. The limit is relative to the timed rounds of the same process.
    """

    new: Timing
    known: Timing
    elements: int
    same: Timing | None = None
    unclear: str = ""


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """The comparison of a confirmation, repeated in one more fresh process.

    Entry i of both series was taken in round i.

    Attributes:
        other: times of the kernel that the challenger is compared with, None if there is no such kernel.
        repetition: times of the challenger on new and repeated inputs. None if the kernel has no inputs, and in reports
            of older versions.
    """

    challenger: Timing
    other: Timing | None
    repetition: Repetition | None = None


@dataclass(frozen=True, kw_only=True)
class Changing:
    """Times of consecutive calls whose inputs are rewritten in place between the calls.

    Entry i of both series was taken in round i.

    Attributes:
        different: times while two different inputs are written alternately.
        same: times while the same inputs are written each time.
    """

    different: Timing
    same: Timing


@dataclass(frozen=True, kw_only=True)
class OverwriteCheck:
    """Times of calls of the challenger on separate output buffers with known contents.

    The check finds kernels that do less work if an output already holds the result. Entry i of each series was taken in
    round i.

    Attributes:
        answered: times of calls whose outputs held the right result before the call, as in a timed loop.
        poisoned: times of calls whose outputs held no valid result before the call.
        repeated: times of the same number of calls, all on one set of outputs. None if not requested.
        repetition: times on new and repeated inputs. None if the kernel has no inputs, and in reports of older
            versions.
        changing: times of calls whose inputs change between calls. None if the device does not support this, and in
            reports of older versions.
        unclear: message if repeated calls were faster than the limit allows while other programs used the device; else
            empty.
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
        judged: number of calls whose outputs were checked: the last call of each sample, and all calls of
            `OverwriteCheck`.
        wrong: number of checked calls with wrong outputs.
        first: description of the first wrong output.
        inputs: number of different inputs of the checked calls; 0 if unknown.
    """

    judged: int
    wrong: int = 0
    first: str = ""
    inputs: int = 0


@dataclass(frozen=True, kw_only=True)
class ConfirmReport:
    """Report on a confirmation. The samples are interleaved: entry i of every timing was taken in round i.

    Attributes:
        challenger, incumbent: times in the first process. None if a kernel could not be measured (`failure`) or, for
            `incumbent`, if there is none.
        challenger_again: a second series of the challenger in the same rounds, from which the noise of the session is
            computed; None if none was taken.
        baselines: times of the baselines in the first process, by name.
        uncovered: reasons why the challenger cannot run a case, by case name. These cases were not tested.
        overwrite_check: times that show whether calls do less work if their outputs already hold the result; None if
            not measured, e.g. for recordings.
        answers: correctness of the outputs of timed calls, over all processes; None if none were checked.
        repeats: results of the fresh processes after the first. Processes are added until the verdict is decided.
        repeated_against: kernel that the challenger is compared with in `repeats`: ``incumbent`` or a baseline's name.
            None if `repeats` is empty, or if there is no such kernel.
        profiles: hardware counters, by ``challenger`` and ``incumbent``. Empty if this kind of device has no profiler,
            if the challenger would not be promoted, or if a sanitizer found a fault.
        failure: outcome of the challenger or incumbent if it could not be measured; the timings are then None.
        failed: which of the two kernels failed; None if neither failed.
        sanitizers: results of the sanitizers under which the challenger ran. If it ran under none, because the device
            has none or the challenger would not be promoted, the only entry states the reason in `skipped`. Empty for
            recordings, and if a kernel could not be measured.
        steps: steps of the confirmation with their times, first step first. Empty in reports of older versions.
        artefacts: digests of stored files, by name.
        environment: facts about the machine during the measurement, e.g. clocks and software versions, by name. If a
            baseline could not be timed, the key ``baseline NAME`` has the reason.
        resources: resources of the builds, by ``challenger`` and ``incumbent``. Empty in reports of older versions.
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
        """Return a Pydantic schema that also reads reports from older databases and workers."""
        from pydantic_core import core_schema  # runners use these classes without Pydantic

        return core_schema.no_info_before_validator_function(_renamed, handler(source))


_FORMER_NAMES = {"witness": "overwrite_check"}
"""Current names of fields, by their names up to version 0.4."""


def _renamed(document: Any) -> Any:
    """Return the document with field names of older versions replaced by the current names."""
    if not isinstance(document, dict):
        return document
    return {_FORMER_NAMES.get(name, name): value for name, value in document.items()}
