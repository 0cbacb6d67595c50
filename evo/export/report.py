"""The evidence of a champion as a Markdown report, including output errors and profiler counters."""

import math
from collections.abc import Mapping, Sequence

from evo.export.called import called_text
from evo.export.table import table
from evo.messages.view import ChampionView, SearchView
from evo.messages.view.champion import retired_text
from evo.promotion import Verdict
from evo.promotion.prediction import BY_ROUND, times_as_fast
from evo.promotion.rules.profile import profile_rows
from evo.promotion.statistics import Interval
from evo.text.wording import (
    bound_text,
    distinct,
    factor_interval_text,
    factor_text,
    over_limit_text,
    percent_text,
    processes_text,
    settings_text,
    time_text,
)
from evo.trial.outcome import CaseError
from evo.trial.timing import Timing


def evidence_markdown(champion: ChampionView, search: SearchView, build: str | None = None) -> str:
    """Return the report on a champion: its config, its time, the verdict with all rules, and how to call the kernel.

    Args:
        build: command that compiles the exported source. None if there is no export; the section on calling the kernel
            is then omitted.
    """
    parts = [
        f"# {champion.subject}: champion {champion.id}",
        _identity(champion, search),
        "## Time",
        _times(champion, search),
        "## Verdict",
        _verdict(champion),
        *_correctness(champion),
        *(("## Profile", section) if (section := profile_section(champion)) is not None else ()),
        *(("## Use", use_section(build, search.device.kind)) if build is not None else ()),
    ]
    return "\n\n".join(parts) + "\n"


def _correctness(champion: ChampionView) -> tuple[str, ...]:
    report = champion.report
    if report is None or not report.cases:
        return ()
    return ("## Correctness on fresh inputs", correctness_section(report.cases, report.uncovered))


def _identity(champion: ChampionView, search: SearchView) -> str:
    rows = {
        "problem": f"`{champion.problem_key}`",
        "config": f"`{settings_text(champion.config)}`",
        "device": f"{champion.place} ({search.device.kind}, {search.device.architecture})",
        "objective": champion.objective.key,
        "found in": f"search {search.id} ({search.strategy}, seed {search.seed}), trial {champion.trial_number}",
        "policy": search.policy.name,
        "promoted": f"{champion.promoted_at:%Y-%m-%d %H:%M} UTC",
        **({} if champion.retired_reason is None else {"retired": retired_text(champion)}),
        "software": ", ".join(f"{name} {version}" for name, version in search.device.software.items()) or "unknown",
    }
    return table(("", ""), list(rows.items()))


def _times(champion: ChampionView, search: SearchView) -> str:
    report = champion.report
    timings: dict[str, Timing | None] = {"champion": None}
    if report is not None:
        timings = {"champion": report.challenger, "previous champion": report.incumbent, **report.baselines}
    rows = [_time_row(name, timing, champion, search) for name, timing in timings.items() if timing is not None]
    times = table(("", "median", "interquartile range", "samples", "champion is", "of the limit"), rows)
    note = (
        f"All times are from the rounds of one process. The column *champion is* contains {BY_ROUND}."
        if report is not None
        else ""
    )
    called = called_text(champion, search.device.kind)
    both = "" if called is None else f"\n\nKernel: {time_text(champion.time_us)}. Called from PyTorch: {called}."
    return f"{times}\n\n{note}\n\n{_interval(champion)}{_limit(search, timings)}{both}"


def _time_row(name: str, timing: Timing, champion: ChampionView, search: SearchView) -> tuple[str, ...]:
    share = percent_text(None if search.roofline is None else search.roofline.share(timing.median_us))
    own = None if champion.report is None else champion.report.challenger
    beside = own is not None and name != "champion" and len(own.samples_us) == len(timing.samples_us)
    faster = f"{factor_text(times_as_fast(own, timing))} as fast" if own is not None and beside else ""
    return name, time_text(timing.median_us), time_text(timing.iqr_us), str(len(timing.samples_us)), faster, share


def _interval(champion: ChampionView) -> str:
    verdict = champion.verdict
    if verdict is None or verdict.challenger is None:
        return ""
    sentences = [f"Interval of the champion's median {champion.timed}: {_span(verdict.challenger)}."]
    if verdict.baseline is not None and verdict.baseline_speedup is not None:
        ratio = verdict.baseline_speedup
        sentences.append(
            f"Speed-up over {verdict.baseline}, the fastest baseline: "
            f"{factor_interval_text(ratio.low, ratio.estimate, ratio.high)}, "
            f"{processes_text(verdict.baseline_processes)}."
        )
    if verdict.first_process is not None and verdict.baseline_processes > 1:
        first = verdict.first_process
        alone = factor_interval_text(first.low, first.estimate, first.high)
        sentences.append(f"The first process alone found {alone}.")
    if verdict.behind_every_baseline:
        sentences.append("**Every baseline is faster: use a baseline.**")
    return " ".join(sentences)


def _limit(search: SearchView, timings: Mapping[str, Timing | None]) -> str:
    if search.roofline is None or not search.roofline.floor_us:
        return ""
    limit = f"{time_text(search.roofline.floor_us)}, bound by {bound_text(search.roofline.bound)}"
    fastest_us = min((timing.median_us for timing in timings.values() if timing is not None), default=math.inf)
    reason = over_limit_text(search.roofline.share(fastest_us))
    return f" The device's limit for this problem is {limit}.{' ' * bool(reason)}{reason}"


def _span(interval: Interval) -> str:
    return f"{time_text(interval.low)} to {time_text(interval.high)}"


def _verdict(champion: ChampionView) -> str:
    if champion.verdict is None:
        return "Promoted by hand."
    return verdict_section(champion.verdict)


def verdict_section(verdict: Verdict) -> str:
    """Return the result of a confirmation as text, with a table of the rules."""
    rows = [(rule.name, rule.result, rule.text) for rule in verdict.rules]
    return f"{verdict.summary}\n\n{table(('rule', 'met', ''), rows)}"


def use_section(build: str, kind: str) -> str:
    """Return the section on calling the kernel, and on compiling it for another machine of the same kind."""
    return f"{_CALLS[kind]}\n\nOn another {_MACHINES[kind]}, compile the source again:\n\n```\n{build}\n```"


_MACHINES = {"cpu": "processor", "cuda": "GPU"}
_CALLS = {
    "cpu": """```python
from kernel import Kernel        # kernel.py of this folder; needs NumPy only

kernel = Kernel()
outputs = kernel(**inputs)       # arrays by argument name, as listed in config.json
```""",
    "cuda": """```python
from kernel import Kernel        # kernel.py of this folder; needs CuPy
outputs = Kernel()(**inputs)     # CuPy arrays by argument name, as listed in config.json

from torch_op import op          # the same as an operator of PyTorch; needs CuPy, too
output = op(*inputs)             # CUDA tensors in the order of config.json; works under torch.compile
```""",
}


HEAD = ("case", "output", "relative L2", "allowed", "largest error", "allowed", "")


def correctness_section(cases: Sequence[CaseError], uncovered: Mapping[str, str]) -> str:
    """Return a table of the output errors and tolerances in each case, and a list of the cases that were not run."""
    left_out = [f"No kernel for {name}: {reason}" for name, reason in uncovered.items()]
    return "\n\n".join([table(HEAD, [_row(each) for each in cases]), *left_out])


def _row(case: CaseError) -> tuple[str, ...]:
    found = (*_beside(case.rel_l2, case.rel_l2_limit), *_beside(case.max_abs, case.max_abs_limit))
    return case.case, case.output, *found, "passed" if case.passed else "failed"


def _beside(error: float | None, limit: float) -> tuple[str, str]:
    return ("not finite", f"{limit:.2g}") if error is None else distinct(error, limit, 2)


def profile_markdown(champion: ChampionView) -> str | None:
    """Return the text of ``profile_summary.md``; None if the champion's confirmation has no profiles."""
    section = profile_section(champion)
    if section is None:
        return None
    head = (
        f"# {champion.family}: profile of champion {champion.id}\n\n`{champion.problem_key}` on {champion.device_model}"
    )
    return f"{head}\n\n{section}\n"


def profile_section(champion: ChampionView) -> str | None:
    """Return a section that compares the profiler counters of the champion and the previous champion.

    The result is None if there are no profiles. The section also states the result of the rule `profile`, and why a
    profile is missing.
    """
    profiles = champion.report.profiles if champion.report is not None else {}
    if not profiles:
        return None
    skipped = [f"The {side} was not profiled: {each.skipped}." for side, each in profiles.items() if each.skipped]
    rows = profile_rows(profiles)
    tool = next(iter(profiles.values())).tool
    parts = [
        f"Counters of one launch per kernel, from {tool}, at the current clocks. For times, use the samples.",
        table(("", "champion", "previous champion", "change"), rows) if rows else "",
        " ".join(skipped),
        *(rule.text for rule in (champion.verdict.rules if champion.verdict else ()) if rule.name == "profile"),
    ]
    return "\n\n".join(part for part in parts if part)
