"""Describes in words how a trial ended."""

import re
from collections.abc import Mapping, Sequence

from evo.text.wording import count_text, distinct, duration_text, percent_text, significant, size_text, time_text
from evo.trial.outcome import (
    Abandoned,
    Cancelled,
    CaseError,
    CompileFailed,
    Crashed,
    Estimated,
    Impossible,
    InvalidConfig,
    InvalidMeasurement,
    LaunchFailed,
    Measured,
    Outcome,
    OverResources,
    Pruned,
    ReferenceFailed,
    TimedOut,
    WrongAnswer,
)

LOG_LINES = 12

_PLACE = re.compile(r": (?:In|At) .*:$|^In file included from |^\s+from \S+:\d+(?::\d+)?[:,]$")
"""Matches lines that GCC prints before an error to state the error's location."""


def detail_text(outcome: Outcome) -> str:
    """Return the details of an outcome as text, without the name of the outcome."""
    text = ""
    match outcome:
        case Measured():
            text = f"{time_text(outcome.timing.median_us)} (interquartile range {time_text(outcome.timing.iqr_us)})"
        case Estimated():
            text = _estimate(outcome)
        case Pruned():
            text = _pruned_text(outcome)
        case CompileFailed():
            text = first_lines(outcome.log)
        case OverResources():
            text = f"{outcome.resource}: {significant(outcome.used)} of at most {significant(outcome.limit)}"
        case InvalidConfig() | LaunchFailed() | ReferenceFailed() | WrongAnswer() | InvalidMeasurement():
            text = outcome.reason
        case TimedOut():
            smaller = "make the cases smaller (`case_problem` in family.toml), or " if outcome.stage == "verify" else ""
            limit = outcome.stage if outcome.stage in {"compile", "measure"} else "verify"
            remedy = f"{smaller}raise {limit}_timeout_s of the policy"
            text = f"the {outcome.stage} stage exceeded {duration_text(outcome.limit_s)}; {remedy}"
        case Crashed():
            text = f"during {outcome.stage}: {outcome.reason}"
        case Impossible():
            floor = time_text(outcome.floor_us)
            text = (
                f"{time_text(outcome.timing.median_us)}, but the problem takes at least {floor}, so "
                "the kernel did not compute everything"
            )
        case Abandoned():
            text = f"its worker was lost {outcome.worker_losses} times"
        case Cancelled():
            pass
    return text


def _estimate(outcome: Estimated) -> str:
    names = ("floor_us", "balance", "hiding", "spill_us", "launch_us", "bytes", "cached_bytes")
    parts = {name: outcome.parts.get(name) for name in names}
    reasons = [
        f"arithmetic and memory take at least {time_text(parts['floor_us'])}{_cached(parts)}",
        f"blocks keep {percent_text(parts['balance'])} of the multiprocessors busy",
        f"a warp is ready {percent_text(parts['hiding'])} of the time",
        f"spills take {time_text(parts['spill_us'])}" if parts["spill_us"] else "nothing spills",
        *([f"the launch itself takes at least {time_text(parts['launch_us'])}"] if parts["launch_us"] else []),
    ]
    return f"estimated, never run: {'; '.join(reasons)}"


def _cached(parts: Mapping[str, float | None]) -> str:
    """Describe how many of the moved bytes the estimate expects in the L2 cache; empty if this is unknown."""
    moved, cached = parts["bytes"], parts["cached_bytes"]
    if moved is None or cached is None:
        return ""
    if not cached:
        return f" with all {size_text(moved)} from memory"
    share = "all" if cached >= moved else f"{size_text(cached)} of"
    return f" with {share} {size_text(moved)} from the L2 cache"


def first_lines(text: str, count: int = LOG_LINES) -> str:
    """Return the first `count` lines of a compiler log, which usually contain the cause of an error.

    If lines are omitted, a last line states their number.
    """
    lines = text.strip().splitlines()
    rest = f"\n… {len(lines) - count} more lines" if len(lines) > count else ""
    return "\n".join(lines[:count]) + rest


def _pruned_text(outcome: Pruned) -> str:
    seen, limit = time_text(outcome.timing.median_us), time_text(outcome.threshold_us)
    if seen == limit:
        seen, limit = (f"{each} µs" for each in distinct(outcome.timing.median_us, outcome.threshold_us, 4))
    stopped = f"stopped after {count_text(len(outcome.timing.samples_us), 'sample')} at {seen}"
    if outcome.verified:
        return f"{stopped}: above {limit}, the slowest elite's time × the prune_ratio"
    return (
        f"{stopped}, before it was verified on all cases: above {limit}, the slowest elite's time × the "
        "hopeless_ratio (with too few elites, the fastest kernel's time)"
    )


def headline(text: str) -> str:
    """Return the line of compiler output that states the error.

    This is the first line that is not only a source location, such as GCC's ``In function 'f':``. If every line is a
    location, the first line is returned.
    """
    lines = text.strip().splitlines()
    return next((line for line in lines if not _PLACE.search(line)), "".join(lines[:1]))


def worst_cases(cases: Sequence[CaseError]) -> list[CaseError]:
    """Return one error for each output of each case: of all seeds, the one that is largest relative to its limit."""
    worst: dict[tuple[str, str], CaseError] = {}
    for case in cases:
        key = (case.case, case.output)
        if key not in worst or _badness(case) > _badness(worst[key]):
            worst[key] = case
    return list(worst.values())


def _badness(case: CaseError) -> float:
    if case.rel_l2 is None or case.max_abs is None:
        return float("inf")
    return max(_share(case.rel_l2, case.rel_l2_limit), _share(case.max_abs, case.max_abs_limit))


def _share(error: float, limit: float) -> float:
    if error == 0.0:
        return 0.0
    return error / limit if limit else float("inf")


ERROR_LINES = 16
"""Maximum number of lines of compiler output that a failure shows."""

LONGEST_LINE = 400
"""Maximum number of characters of such a line."""

_FOLDER = re.compile(r"(?<![\w.])/(?:[\w.+@-]+/)+")
_ERROR = re.compile(r"\berror\b|\bundefined reference\b", re.IGNORECASE)
_WARNING = re.compile(r"\bwarning\b[^:]{0,16}:", re.IGNORECASE)
"""Matches a warning of GCC, clang and nvcc, e.g. ``warning: …`` and ``warning #177-D: …``."""


def failure_text(outcome: Outcome) -> str | None:
    """Describe a failure for the author of the source; None if the outcome is not a failure.

    Compiler output is shortened to its errors. Paths of folders are removed from the text.
    """
    match outcome:
        case Measured() | Estimated() | Cancelled():
            return None
        case CompileFailed():
            text = error_lines(outcome.log)
        case WrongAnswer():
            wrong = [case for case in worst_cases(outcome.cases) if not case.passed]
            text = "\n".join([outcome.reason, *map(_case_text, wrong[:3])])
        case _:
            text = detail_text(outcome)
    return _FOLDER.sub("", text)


def error_lines(log: str, count: int = ERROR_LINES) -> str:
    """Return the lines of a compiler's output that contain an error, each with the two lines that follow it.

    If no line contains an error, all lines count. Of these lines, the first `count` are returned. Long lines are
    shortened.
    """
    lines = log.strip().splitlines()
    kept = sorted({index + more for index, line in enumerate(lines) if _ERROR.search(line) for more in range(3)})
    chosen = [lines[index] for index in kept if index < len(lines)] or lines
    short = [line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…" for line in chosen]
    return first_lines("\n".join(short), count)


def output_start(log: str, count: int, remedy: str) -> str:
    """Return at most `count` lines of a compiler's output, from its first error or, without errors, its first warning.

    Without either, the output is returned from its first line. If the output has more than `count` lines, a last line
    states the numbers of omitted lines and of warnings. An output of at most `count` lines is returned whole.

    Args:
        remedy: text at the end of the last line, which states how to see all lines.
    """
    lines = log.strip().splitlines()
    if len(lines) <= count:
        return "\n".join(lines)
    found = (index for pattern in (_ERROR, _WARNING) for index, line in enumerate(lines) if pattern.search(line))
    start = next(found, 0)
    shown = lines[start : start + count]
    omitted = count_text(len(lines) - len(shown), "more line")
    warnings = sum(_WARNING.search(line) is not None for line in lines)
    counted = f"{omitted}, {count_text(warnings, 'warning')} in all" if warnings else omitted
    return "\n".join([*shown, f"… {counted}; {remedy}"])


def _case_text(case: CaseError) -> str:
    relative, largest = _beside(case.rel_l2, case.rel_l2_limit), _beside(case.max_abs, case.max_abs_limit)
    errors = f"relative L2 error {relative}, largest error {largest}"
    return f"case {case.case}, output {case.output}: {errors}"


def _beside(error: float | None, limit: float) -> str:
    if error is None:
        return f"not a number (limit {limit:.4g})"
    found, allowed = distinct(error, limit, 4)
    return f"{found} (limit {allowed})"
