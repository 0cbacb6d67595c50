"""Validates reports: the ranges of numbers, contradictions between fields, and whether a report fits its job."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias

from evo.device import Ceilings
from evo.device.kind import Runs
from evo.errors import InvalidInput
from evo.messages.job import Confirm, Job, SearchTerms
from evo.text.limits import LARGEST_FIGURE, LONGEST_S, LONGEST_US, SHORTEST_US, accepted
from evo.trial.outcome import Abandoned, Cancelled, CaseError, Estimated, Impossible, Measured, Outcome, Pruned
from evo.trial.results import (
    Ablated,
    AblateReport,
    BaselineReport,
    ConfirmReport,
    EvaluateReport,
    OutputChecks,
    Repeat,
    Report,
)
from evo.trial.timing import Power, Timing


def check(report: Report) -> None:
    """Check the fields of a report that can be checked without its job.

    Raises:
        InvalidInput: a field of the report is invalid.
    """
    check_figures("report", report)
    for where, timing in _timings(report):
        if not timing.samples_us:
            raise InvalidInput(f"{where}.samples_us", "must contain at least one sample")
        if timing.power is not None and not len(timing.power.samples_w) == len(timing.power.samples_us) > 0:
            raise InvalidInput(
                f"{where}.power", "must have the same number of samples_us and samples_w, at least one of each"
            )
    match report:
        case EvaluateReport():
            _check_outcome(report.outcome)
        case ConfirmReport():
            _check_rounds(report)
        case AblateReport():
            for index, each in enumerate(report.changes):
                _check_change(f"report.changes.{index}", each)


def check_answer(report: Report, job: Job, terms: SearchTerms) -> None:
    """Check that a report fits its job and the settings of the search.

    Raises:
        InvalidInput: a field of the report does not fit.
    """
    _check_kind(report, terms.device.runs)
    if terms.device.runs != "recordings":  # recordings keep the protocol version of their measurement
        _check_protocol(report, terms.objective.protocol)
    if isinstance(report, ConfirmReport) and isinstance(job, Confirm):
        _check_incumbent(report, job)


def _check_kind(report: Report, runs: Runs) -> None:
    """Refuse estimates in a search that measures kernels, and measured times in a search that only estimates times."""
    if runs == "nothing" and any(_timings(report)):
        raise InvalidInput(
            "report", "contains measured times, but this search only estimates times; report an estimate"
        )
    if runs != "nothing" and isinstance(report, EvaluateReport) and isinstance(report.outcome, Estimated):
        raise InvalidInput("report.outcome.kind", "must not be an estimate, because this search measures kernels")


def _check_protocol(report: Report, protocol: int) -> None:
    """Refuse times that were measured with a different protocol version, because the search cannot rank them."""
    for where, timing in _timings(report):
        if timing.protocol != protocol:
            remedy = "update the worker" if timing.protocol < protocol else "start a new search"
            raise InvalidInput(
                f"{where}.protocol",
                f"is {timing.protocol}, but this search ranks times of protocol {protocol}; {remedy}",
            )


def _check_incumbent(report: ConfirmReport, job: Confirm) -> None:
    """Require the times of the incumbent if the job has one. Without them, any challenger would be promoted."""
    if report.failure is not None:
        return
    if job.incumbent is not None and report.incumbent is None:
        remedy = "time both, or report a `failure` with `failed`"
        raise InvalidInput("report.incumbent", f"is missing, but this job has an incumbent to compare with; {remedy}")
    if job.incumbent is None and report.incumbent is not None:
        raise InvalidInput("report.incumbent", "this job has no incumbent; omit the field")


def _check_outcome(outcome: Outcome) -> None:
    """Refuse an outcome that contradicts its measured values, or that only the service assigns."""
    match outcome:
        case Abandoned() | Cancelled():
            remedy = "return the lease instead (POST /attempts/ID/release)"
            raise InvalidInput("report.outcome.kind", f"only the service assigns the outcome {outcome.kind}; {remedy}")
        case Measured(cases=cases):
            for index, case in enumerate(cases):
                if not case.passed:
                    raise InvalidInput(
                        f"report.outcome.cases.{index}",
                        f"{case.case} exceeds its error limits, so the outcome is not `measured`; "
                        "report `wrong_answer`",
                    )
        case Pruned(timing=timing, threshold_us=threshold_us) if timing.samples_us:
            if timing.median_us <= threshold_us:
                raise InvalidInput(
                    "report.outcome.threshold_us",
                    f"the median of the samples, {timing.median_us:g} µs, is not above {threshold_us:g} µs; "
                    "report `measured`",
                )
        case Impossible(timing=timing, floor_us=floor_us) if timing.samples_us:
            if timing.median_us >= floor_us:
                raise InvalidInput(
                    "report.outcome.floor_us",
                    f"the median of the samples, {timing.median_us:g} µs, is not below {floor_us:g} µs; "
                    "report `measured`",
                )


def _check_rounds(report: ConfirmReport) -> None:
    _check_as_many("report", [timing for _, timing in _session(report)])
    if report.answers is not None and not 0 <= report.answers.wrong <= report.answers.judged:
        raise InvalidInput("report.answers.wrong", "must be at least 0, and at most the number of checked outputs")
    if report.overwrite_check is not None:
        _check_as_many("report.overwrite_check", [report.overwrite_check.answered, report.overwrite_check.poisoned])
    for where, timings in _input_timings(report):
        _check_as_many(where, list(timings.values()))
    _check_repeats(report)


def _check_repeats(report: ConfirmReport) -> None:
    """Check that all processes after the first compared the challenger with the same kernel, or all with no kernel.

    If the report has an incumbent, the compared kernel must be the incumbent. Otherwise, it is one of the baselines.
    """
    against = report.repeated_against
    if report.repeats and report.incumbent is not None and against != "incumbent":
        raise InvalidInput("report.repeated_against", "must be `incumbent`, because this report has an incumbent")
    if against not in (None, "incumbent", *report.baselines):
        known = ", ".join(report.baselines) or "none"
        raise InvalidInput(
            "report.repeated_against", f"{against} is not a baseline of the report; its baselines: {known}"
        )
    if against == "incumbent" and report.incumbent is None:
        raise InvalidInput("report.repeated_against", "is `incumbent`, but the report has no samples of an incumbent")
    for index, repeat in enumerate(report.repeats):
        if (repeat.other is None) != (against is None):
            needed = (
                "requires `repeated_against`; send it, or omit `other`"
                if against is None
                else f"must have the samples of {against}"
            )
            raise InvalidInput(f"report.repeats.{index}.other", needed)
        _check_as_many(f"report.repeats.{index}", _both(repeat))


def _check_change(where: str, each: Ablated) -> None:
    """Refuse a change whose samples are incomplete, or that has both samples and a failure.

    Complete samples are three series with one sample per round: the champion twice, and the changed config. A change
    that was not timed has no samples.
    """
    timings = [timing for _, timing in _ablated_timings(where, each)]
    if timings and (len(timings) < 3 or each.failure is not None):
        raise InvalidInput(
            where, "must contain `champion`, `champion_again` and `changed`, or only `failure`, or only `same_binary`"
        )
    _check_as_many(where, timings)


def _both(repeat: Repeat) -> list[Timing]:
    return [timing for timing in (repeat.challenger, repeat.other) if timing is not None]


def _check_as_many(where: str, timings: Sequence[Timing]) -> None:
    rounds = {len(timing.samples_us) for timing in timings}
    if len(rounds) > 1:
        raise InvalidInput(where, f"every series must have one sample per round; found {sorted(rounds)} samples")


def _timings(report: Report) -> Iterator[tuple[str, Timing]]:
    match report:
        case EvaluateReport(outcome=Measured() as measured):
            yield "report.outcome.timing", measured.timing
            if measured.other is not None:
                yield "report.outcome.other", measured.other
        case EvaluateReport(outcome=Pruned() | Impossible() as outcome):
            yield "report.outcome.timing", outcome.timing
        case BaselineReport():
            yield from ((f"report.timings.{name}", timing) for name, timing in report.timings.items())
        case ConfirmReport():
            yield from _session(report)
            if report.overwrite_check is not None:
                yield "report.overwrite_check.answered", report.overwrite_check.answered
                yield "report.overwrite_check.poisoned", report.overwrite_check.poisoned
                if (repeated := report.overwrite_check.repeated) is not None:
                    yield "report.overwrite_check.repeated", repeated
            for where, timings in _input_timings(report):
                yield from ((f"{where}.{name}", timing) for name, timing in timings.items())
            for index, repeat in enumerate(report.repeats):
                yield f"report.repeats.{index}.challenger", repeat.challenger
                if repeat.other is not None:
                    yield f"report.repeats.{index}.other", repeat.other
        case AblateReport():
            for index, each in enumerate(report.changes):
                yield from _ablated_timings(f"report.changes.{index}", each)


def _input_timings(report: ConfirmReport) -> Iterator[tuple[str, dict[str, Timing]]]:
    """Yield the location of each comparison of new with repeated inputs in a report, and its timings by name."""
    first = report.overwrite_check
    found = {"report.overwrite_check.repetition": None if first is None else first.repetition}
    found |= {f"report.repeats.{index}.repetition": each.repetition for index, each in enumerate(report.repeats)}
    for where, calls in found.items():
        if calls is not None:
            timings = {"new": calls.new, "known": calls.known, "same": calls.same}
            yield where, {name: timing for name, timing in timings.items() if timing is not None}
    if first is not None and (changing := first.changing) is not None:
        yield "report.overwrite_check.changing", {"different": changing.different, "same": changing.same}


def _ablated_timings(where: str, each: Ablated) -> Iterator[tuple[str, Timing]]:
    for name in ("champion", "champion_again", "changed"):
        if (timing := getattr(each, name)) is not None:
            yield f"{where}.{name}", timing


def _session(report: ConfirmReport) -> Iterator[tuple[str, Timing]]:
    """Yield (name, timing) of each series that was interleaved in the first process."""
    for name in ("challenger", "challenger_again", "incumbent"):
        if (timing := getattr(report, name)) is not None:
            yield f"report.{name}", timing
    yield from ((f"report.baselines.{name}", timing) for name, timing in report.baselines.items())


Range: TypeAlias = tuple[float, float]

TIME_US: Range = (SHORTEST_US, LONGEST_US)
DURATION_US: Range = (0.0, LONGEST_US)
"""Range in µs of durations that are not times of kernels, such as thresholds. A duration may be 0."""
SPAN_S: Range = (-1.0, LONGEST_S)
"""Range in seconds of durations between two clock readings. Such a duration may be slightly negative."""
ERROR: Range = (0.0, sys.float_info.max)
"""Range of the errors of an output. Errors can be very large if the output is uninitialised memory."""
COUNT: Range = (0.0, 1e15)
"""Range of counts of calls, samples and versions. 1e15 calls of a nanosecond take eleven days."""
CALLS: Range = (1.0, 1e15)
WATTS: Range = (1e-6, 1e6)
RATE: Range = (1.0, LARGEST_FIGURE)
FIGURE: Range = (-LARGEST_FIGURE, LARGEST_FIGURE)

_FIELDS: Mapping[tuple[type, str], Range] = {
    (Timing, "samples_us"): TIME_US,
    (Estimated, "time_us"): TIME_US,
    (Power, "samples_us"): TIME_US,
    (Power, "samples_w"): WATTS,
    (Timing, "calls_per_sample"): CALLS,
    (Timing, "protocol"): COUNT,
}
_CLASSES: Mapping[type, Range] = {OutputChecks: COUNT, Ceilings: RATE, CaseError: ERROR}


def check_figures(where: str, content: Any, within: Range = FIGURE) -> None:
    """Check that all numbers in a message, or in a part of a message, are in the permitted range.

    The range depends on the class and the field. The error of a wrong output may be any finite number, because the
    output may be uninitialised memory.

    Raises:
        InvalidInput: a number is out of range.
    """
    match content:
        case None | bool() | str():
            return
        case int() | float():
            _check(where, content, within)
        case Mapping():
            for name, value in content.items():
                check_figures(f"{where}.{name}", value, within)
        case list() | tuple():
            for index, value in enumerate(content):
                check_figures(f"{where}.{index}", value, within)
        case _ if is_dataclass(content):
            for field in fields(content):
                value = getattr(content, field.name)
                if value is not None and not isinstance(value, str):
                    check_figures(f"{where}.{field.name}", value, _range(content, field.name))


def _range(content: Any, name: str) -> Range:
    by_field = _FIELDS.get((type(content), name)) or _CLASSES.get(type(content))
    if by_field is not None:
        return by_field
    return DURATION_US if name.endswith("_us") else SPAN_S if name.endswith("_s") else FIGURE


def _check(where: str, value: float, within: Range) -> None:
    least, most = within
    if not least <= value <= most:
        raise InvalidInput(where, f"{str(value)[:40]} is out of range; accepted: {accepted(least, most)}")
