"""Report of a mission as Markdown: results on the GPU, compared with the goals and with the limits."""

from collections.abc import Iterator, Mapping, Sequence

from evo.export.table import table
from evo.family import Work
from evo.messages.view import SearchView
from evo.report.mission import Mission, Result
from evo.report.mission.goals import Limits, goals_table
from evo.report.saving import saving
from evo.text.wording import count_text, duration_text, factor_text, percent_text, settings_text, significant, time_text
from evo.trial.outcome import Measured
from evo.trial.timing import Timing

_SOURCES = {"measured": "measured here", "table": "from its datasheet"}


def mission_report(
    mission: Mission, results: Sequence[Result], works: Sequence[Work | None], missing: Sequence[str]
) -> str:
    """Return the whole document.

    Args:
        works: least work of each result's problem.
        missing: what `doctor` did not find, one line each.
    """
    parts = ["# Mission report", *_warnings(mission, results)]
    if results:
        parts += ["## Where", _where(results), _calibration(results)]
    if missing:
        parts += ["Missing here:", "\n".join(f"- {line}" for line in missing)]
    for result, work in zip(results, works, strict=True):
        parts += [f"## {result.search.problem_key}", *_shape(mission, result, work)]
    parts += ["## Effort", _effort(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _warnings(mission: Mission, results: Sequence[Result]) -> Iterator[str]:
    if mission.rehearsal:
        yield (
            "**A rehearsal: small problems and few trials exercise the whole procedure once. Its figures mean nothing "
            "else.**"
        )
    for model in dict.fromkeys(result.search.device.model for result in results):
        if model != mission.model:
            yield (
                f"**Timed on {model}, not on {mission.model}: the goals are for the latter, and no time below says "
                "anything about it.**"
            )
    for users in dict.fromkeys(_environment(result).get("shared_with") for result in results):
        if users:
            yield f"**The device was also used by {users}: the times are not reliable.**"


def _where(results: Sequence[Result]) -> str:
    device = results[0].search.device
    facts = {"device": f"{device.model} ({device.kind}, {device.architecture})", "uuid": device.uuid, **device.software}
    facts |= {name: value for name, value in _environment(results[0]).items() if name not in facts and " " not in name}
    return table(("", ""), list(facts.items()))


def _calibration(results: Sequence[Result]) -> str:
    """Describe the device's peak rates and its noise."""
    device, rows = results[0].search.device, []
    if device.ceilings is not None:
        limits = device.ceilings
        source, memory = _SOURCES[limits.source], _SOURCES[limits.bytes_source or limits.source]
        rows = [(f"{name}, {source}", f"{rate / 1e12:.3g} TFLOP/s") for name, rate in limits.flops_per_s.items()]
        rows.append((f"memory, {memory}", f"{limits.bytes_per_s / 1e9:.3g} GB/s"))
    for result in results:
        if (timing := _timing(result)) is not None:
            rows += [(f"{what}, search {result.search.id}", text) for what, text in _steadiness(timing)]
    return table(("calibration", ""), rows)


def _steadiness(timing: Timing) -> Iterator[tuple[str, str]]:
    if timing.floor_us is not None:
        yield "empty call", time_text(timing.floor_us)
    if timing.anchor_us is not None:
        yield "anchor kernel", time_text(timing.anchor_us)
    yield "interquartile range of the best", percent_text(timing.iqr_us / timing.median_us)


def _shape(mission: Mission, result: Result, work: Work | None) -> Iterator[str]:
    search = result.search
    reached_us = _reached(result)
    if reached_us is None:
        yield f"Nothing was measured: search {search.id} is {search.state} ({search.reason})."
        return
    yield _times(result)
    yield f"Config: `{settings_text(result.best.config)}`" if search.champion is None and result.best else ""
    yield _champion(search)
    limits = Limits.of(search.device, work, search.objective)
    if limits:
        reached = percent_text(limits.least_us / reached_us)
        yield f"The least possible time here is {limits}: {reached} is reached."
    yield goals_table(mission, search, work, reached_us)
    yield _decision(search)


def _times(result: Result) -> str:
    search, timing = result.search, _timing(result)
    rows = []
    if timing is not None and result.best is not None:
        rows.append(
            (f"best trial, {result.best.number}, quick samples", _time(timing), _against(search, timing.median_us))
        )
        other = result.best.outcome.other if isinstance(result.best.outcome, Measured) else None
        if other is not None:
            cache = "cold" if search.objective.cache == "hot" else "hot"
            rows.append((f"the same, {cache}", _time(other), ""))
    if search.champion is not None:
        name, time_us = f"champion {search.champion.id}, confirmed, {search.champion.timed}", search.champion.time_us
        kept = saving(search, search.champion, time_us)
        speedup = "no baseline ran" if kept is None else f"{factor_text(kept.factor)} as fast"
        rows.insert(0, (name, time_text(time_us), speedup))
    baselines = sorted(search.baselines.items(), key=lambda item: item[1].median_us)
    rows += [(f"baseline {name}", _time(timing), "") for name, timing in baselines]
    return table(("", search.objective.cache, "compared with the fastest baseline"), rows)


def _time(timing: Timing) -> str:
    return f"{time_text(timing.median_us)} (interquartile range {time_text(timing.iqr_us)})"


def _against(search: SearchView, time_us: float) -> str:
    if search.fastest_baseline is None:
        return "no baseline ran"
    return f"{factor_text(search.baselines[search.fastest_baseline].median_us / time_us)} as fast"


def _champion(search: SearchView) -> str:
    champion = search.champion
    if champion is None:
        why = search.challenges[-1].verdict.summary if search.challenges else "nothing was confirmed."
        return f"No champion: {why}"
    found = "" if champion.search_id == search.id else f", found by search {champion.search_id} before"
    verdict, interval = champion.verdict, ""
    if verdict is not None and verdict.challenger is not None:
        low, high = verdict.challenger.low, verdict.challenger.high
        interval = f" Interval of its median {champion.timed}: {time_text(low)} to {time_text(high)}."
    return f"Champion {champion.id}{found}: `{settings_text(champion.config)}`.{interval}"


def _decision(search: SearchView) -> str:
    """Return the decision: keep the champion, fall back, or continue."""
    champion = search.champion
    if champion is None:
        return "Decision: nothing to keep yet; search longer, or check the failures (`kernel-evo trials`)."
    kept = saving(search, champion, champion.time_us)
    if kept is None:
        return "Decision: open; no baseline ran with it, so its value is not known."
    if not kept.faster:
        return f"Decision: fall back to {kept.baseline}, which is faster: the kernel is {kept.as_fast}."
    return f"Decision: keep champion {champion.id}; it is {kept.as_fast}."


def _effort(results: Sequence[Result]) -> str:
    rows = []
    for search in (result.search for result in results):
        cost = "–" if search.cost is None else significant(search.cost)
        done = f"{count_text(search.finished, 'trial')} in {duration_text(search.elapsed_s)}"
        counts = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in search.counts.items())
        rows.append((str(search.id), search.state, done, counts, cost))
    total = sum(result.search.cost or 0.0 for result in results)
    paid = f"\n\nThe searches cost {significant(total)} together." if total else ""
    return table(("search", "state", "effort", "outcomes", "cost"), rows) + paid


def _reached(result: Result) -> float | None:
    """Return the confirmed time if there is one, else the best trial's."""
    if result.search.champion is not None:
        return result.search.champion.time_us
    return None if result.search.best is None else result.search.best.time_us


def _timing(result: Result) -> Timing | None:
    outcome = None if result.best is None else result.best.outcome
    return outcome.timing if isinstance(outcome, Measured) else None


def _environment(result: Result) -> Mapping[str, str]:
    return {} if result.best is None else result.best.environment
