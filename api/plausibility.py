"""What no report may say, whoever sent it: times that are no times, and outcomes that only the service decides."""

from collections.abc import Iterator, Sequence

from api.figures import TIME_US, check_figures
from evo.device import DeviceKind
from evo.errors import InvalidInput
from evo.job import Ablated, AblateReport, BaselineReport, ConfirmReport, EvaluateReport, Repeat, Report
from evo.outcome import Abandoned, Cancelled, Estimated, Impossible, Measured, Pruned
from evo.timing import Timing


def check(report: Report) -> None:
    """Nothing, for a report that can be believed as far as its form goes.

    Raises:
        InvalidInput: names the field of the report.
    """
    if isinstance(report, EvaluateReport) and isinstance(report.outcome, Abandoned | Cancelled):
        way_out = "give the lease back instead (POST /attempts/ID/release)"
        raise InvalidInput("report.outcome.kind", f"{report.outcome.kind} is decided by the service: {way_out}")
    if isinstance(report, EvaluateReport) and isinstance(report.outcome, Estimated):
        check_figures("report.outcome.time_us", report.outcome.time_us, TIME_US)
    check_figures("report", report)
    for where, timing in _timings(report):
        if not timing.samples_us:
            raise InvalidInput(f"{where}.samples_us", "at least one sample is needed")
    if isinstance(report, ConfirmReport):
        _check_rounds(report)
    if isinstance(report, AblateReport):
        for place, each in enumerate(report.changes):
            _check_change(f"report.changes.{place}", each)


def check_kind(report: Report, kind: DeviceKind) -> None:
    """Nothing, for a report that this kind of device can give: estimates and times never meet in one search.

    Raises:
        InvalidInput: names the field of the report.
    """
    if kind == "estimate" and any(_timings(report)):
        raise InvalidInput("report", "nothing is timed in a search of estimates")
    if kind != "estimate" and isinstance(report, EvaluateReport) and isinstance(report.outcome, Estimated):
        raise InvalidInput("report.outcome.kind", "estimated: this search measures")


def _check_rounds(report: ConfirmReport) -> None:
    _check_as_many("report", [timing for _, timing in _session(report)])
    if report.answers is not None and not 0 <= report.answers.wrong <= report.answers.judged:
        raise InvalidInput("report.answers.wrong", "at least 0, and no more than were judged")
    if report.witness is not None:
        _check_as_many("report.witness", [report.witness.answered, report.witness.poisoned])
    for place, repeat in enumerate(report.repeats):
        _check_as_many(f"report.repeats.{place}", _both(repeat))


def _check_change(where: str, each: Ablated) -> None:
    """All three series, or none and why."""
    timings = [timing for _, timing in _beside(where, each)]
    if timings and (len(timings) < 3 or each.failure is not None):
        raise InvalidInput(where, "either champion, champion_again and changed are given, or a failure, or same_binary")
    _check_as_many(where, timings)


def _both(repeat: Repeat) -> list[Timing]:
    return [timing for timing in (repeat.challenger, repeat.other) if timing is not None]


def _check_as_many(where: str, timings: Sequence[Timing]) -> None:
    rounds = {len(timing.samples_us) for timing in timings}
    if len(rounds) > 1:
        raise InvalidInput(where, f"every series needs one sample a round, found {sorted(rounds)} samples")


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
            if report.witness is not None:
                yield "report.witness.answered", report.witness.answered
                yield "report.witness.poisoned", report.witness.poisoned
            for place, repeat in enumerate(report.repeats):
                yield f"report.repeats.{place}.challenger", repeat.challenger
                if repeat.other is not None:
                    yield f"report.repeats.{place}.other", repeat.other
        case AblateReport():
            for place, each in enumerate(report.changes):
                yield from _beside(f"report.changes.{place}", each)


def _beside(where: str, each: Ablated) -> Iterator[tuple[str, Timing]]:
    for name in ("champion", "champion_again", "changed"):
        if (timing := getattr(each, name)) is not None:
            yield f"{where}.{name}", timing


def _session(report: ConfirmReport) -> Iterator[tuple[str, Timing]]:
    """What was interleaved in the first process."""
    for name in ("challenger", "challenger_again", "incumbent"):
        if (timing := getattr(report, name)) is not None:
            yield f"report.{name}", timing
    yield from ((f"report.baselines.{name}", timing) for name, timing in report.baselines.items())
