"""Prints the output of ``measure``: every step with its result."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from evo.cli.console.output import console, table
from evo.device.estimate.roofline import Roofline
from evo.text.wording import (
    bound_text,
    count_text,
    distinct,
    factor_text,
    outcome_text,
    over_limit_text,
    percent_text,
    significant,
    time_text,
)
from evo.trial.explain import detail_text, output_start, worst_cases
from evo.trial.outcome import CaseError, CompileFailed, Measured, WrongAnswer
from evo.trial.results import BaselineReport, Stages
from evo.trial.timing import Timing
from workers.build.build import Built
from workers.jobs.single import EvaluatedConfig


@contextmanager
def steps(*, lines: bool) -> Iterator[Callable[[str], None]]:
    """Context manager that yields a function to show the current step on standard error.

    On a terminal, the step is a line that disappears at the end. Otherwise, each step is printed as a line.

    Args:
        lines: False to print no lines, because a program may read standard output and standard error together.
    """
    out = console(stderr=True)
    if not out.is_terminal:
        yield lambda words: out.print(f"{words} …") if lines else None
        return
    with out.status("") as status:
        yield lambda words: status.update(Text(f"{words} …"))


WARNING_LINES = 3
"""Maximum number of printed lines of the compiler's output after a success."""

ERROR_LINES = 12
"""Maximum number of printed lines of the compiler's output after an error."""


def print_climb(
    out: Console, evaluated: EvaluatedConfig, cache: str, roofline: Roofline | None, *, whole_log: bool = False
) -> None:
    """Print every step of a measurement, up to the step at which the config failed.

    Args:
        cache: cache mode of the main timing, ``hot`` or ``cold``.
        roofline: roofline of the problem on the device; None if unknown.
        whole_log: True to print all lines of the compiler's output, False to print its first error or warning.
    """
    report, built = evaluated.report, evaluated.built
    _print_build(out, built, report.stages, whole_log=whole_log)
    for case, reason in built.uncovered.items():
        _step(out, "", None, f"case {case} is not covered: {reason}")
    outcome = report.outcome
    cases = outcome.cases if isinstance(outcome, Measured | WrongAnswer) else ()
    if cases:
        _print_cases(out, cases, report.stages.verify_s)
    if isinstance(outcome, Measured):
        _print_timing(out, cache, outcome.timing, roofline)
        if outcome.other is not None:
            _print_timing(out, "cold" if cache == "hot" else "hot", outcome.other, None)
        _step(out, "", None, "quick samples of one process: only a search confirms a time, in fresh processes")
        if evaluated.doubt is not None:
            _step(out, "repeated", False, f"the times above are not those of a whole call. {evaluated.doubt}")
        elif evaluated.baselines is not None:
            _print_baselines(out, evaluated.baselines, outcome.timing)
        _print_environment(out, report.environment)
        return
    detail = detail_text(outcome)
    if isinstance(outcome, CompileFailed):
        detail = _compiler_output(outcome.log, ERROR_LINES, whole=whole_log)
    _step(out, "outcome", False, f"{outcome_text(outcome.kind)}: {detail}")
    if evaluated.trouble is not None:
        _step(out, "reference", False, evaluated.trouble)


def _print_build(out: Console, built: Built, stages: Stages, *, whole_log: bool) -> None:
    if built.source is not None:
        lines = count_text(len(built.source.splitlines()), "line")
        _step(out, "render", True, f"{lines} in {_seconds(stages.render_s)}")
    if built.binary is not None:
        _step(out, "compile", True, f"{len(built.binary) / 1024:.0f} KiB in {_seconds(stages.compile_s)}")
    if built.log and built.refusal is None:
        _step(out, "", None, f"compiler output: {_compiler_output(built.log, WARNING_LINES, whole=whole_log)}")
    if built.resources:
        figures = ", ".join(f"{name} {significant(value)}" for name, value in built.resources.items())
        _step(out, "resources", True, figures)


def _compiler_output(log: str, count: int, *, whole: bool) -> str:
    return log.strip() if whole else output_start(log, count, "--compiler-output prints all")


def _print_cases(out: Console, cases: tuple[CaseError, ...], seconds: float) -> None:
    passed = all(case.passed for case in cases)
    _step(
        out,
        "verify",
        passed,
        f"{count_text(len(cases), 'check')} in {_seconds(seconds)}; the largest error of each case:",
    )
    rows = table("case", "output", ">relative L2", ">limit", ">max error", ">limit")
    for case in worst_cases(cases):
        style = "" if case.passed else "red"
        rows.add_row(case.case, case.output, *_errors(case), style=style)
    out.print(rows)


def _errors(case: CaseError) -> tuple[str, str, str, str]:
    return *_beside(case.rel_l2, case.rel_l2_limit), *_beside(case.max_abs, case.max_abs_limit)


def _beside(error: float | None, limit: float) -> tuple[str, str]:
    return ("not finite", f"{limit:.2e}") if error is None else distinct(error, limit, 2, "e")


def _print_baselines(out: Console, report: BaselineReport, timing: Timing) -> None:
    for name, baseline in sorted(report.timings.items(), key=lambda item: item[1].median_us):
        over = factor_text(baseline.median_us / timing.median_us)
        _step(out, "baseline", None, f"{name}: {time_text(baseline.median_us)}, this config is {over} as fast")
    for name, reason in report.unavailable.items():
        _step(out, "baseline", None, f"{name} could not run: {reason}")


def _print_timing(out: Console, cache: str, timing: Timing, roofline: Roofline | None) -> None:
    text = f"{time_text(timing.median_us)} median of {count_text(len(timing.samples_us), 'sample')}"
    text += f", interquartile range {time_text(timing.iqr_us)}, {count_text(timing.calls_per_sample, 'call')} a sample"
    if timing.floor_us is not None:
        text += f"; an empty call takes {time_text(timing.floor_us)}"
    if timing.anchor_us:
        ratio = significant(timing.median_us / timing.anchor_us)
        text += f"; {ratio} times the time of the anchor kernel (a fixed reference kernel)"
    _step(out, cache, True, text)
    if roofline is not None and roofline.floor_us > 0:
        share, limit = percent_text(roofline.share(timing.median_us)), time_text(roofline.floor_us)
        _step(out, "", None, f"{share} of this device's limit, {limit} bound by {bound_text(roofline.bound)}")
        if reason := over_limit_text(roofline.share(timing.median_us)):
            _step(out, "", None, reason)


def _print_environment(out: Console, environment: Mapping[str, str]) -> None:
    if environment:
        _step(out, "under", None, ", ".join(f"{name} {value}" for name, value in environment.items()))


def _step(out: Console, name: str, passed: bool | None, text: str) -> None:
    mark = {True: ("✓ ", "green"), False: ("✗ ", "red"), None: ("  ", "")}[passed]
    out.print(Text.assemble((f"{name:<10}", "bold"), mark, text))


def _seconds(seconds: float) -> str:
    return time_text(seconds * 1e6)
