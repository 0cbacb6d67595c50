"""The mission (attention at two shapes on an NVIDIA L4, with target times), and its report as Markdown."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from evo.device import Device
from evo.device.estimate.roofline import device_roofline
from evo.device.estimate.target import known
from evo.export.table import table
from evo.family import Work
from evo.messages.view import SearchView, TrialView
from evo.report.saving import saving
from evo.text.wording import (
    count_text,
    duration_text,
    factor_text,
    over_limit_text,
    percent_text,
    settings_text,
    significant,
    time_text,
)
from evo.trial.objective import Objective
from evo.trial.outcome import Measured
from evo.trial.timing import Timing


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A target time on the mission's GPU, with its source."""

    time_us: float
    source: str


@dataclass(frozen=True, kw_only=True)
class Mission:
    """The problems of a mission, the GPU, and the target times.

    Attributes:
        problems: problem keys. They are searched one after another, each for the same duration.
        model: GPU model that the goals are set for.
        policy: fields that override the default policy.
        trials: maximum number of trials of each search; None if only the time limits them.
        rehearsal: True for a small run that only tests the procedure. Its times are meaningless.
    """

    family: str = "sdpa"
    problems: tuple[str, ...] = ("B=2,H=8,S=256,D=64", "B=2,H=8,S=512,D=64")
    model: str = "NVIDIA L4"
    goals: tuple[Goal, ...] = ()
    policy: Mapping[str, Any] = field(default_factory=dict)
    trials: int | None = None
    rehearsal: bool = False


GOALS = (
    Goal(time_us=47.0, source="PyTorch's attention, from earlier notes"),
    Goal(time_us=24.2, source="xFormers (CUTLASS), from earlier notes"),
    Goal(time_us=16.0, source="first target"),
    Goal(time_us=12.0, source="hoped-for time with FP8, upper end"),
    Goal(time_us=8.0, source="hoped-for time with FP8, lower end"),
    Goal(time_us=5.0, source="last target"),
)

MISSION = Mission(goals=GOALS)

REHEARSAL = Mission(
    problems=("B=1,H=1,S=32,D=16", "B=1,H=1,S=64,D=16"),
    goals=GOALS,
    policy={"quick_samples": 5, "confirm_samples": 10, "confirm_processes": 2, "most_processes": 4, "seeds": 1},
    trials=2,
    rehearsal=True,
)


@dataclass(frozen=True, kw_only=True)
class Result:
    """Result of the search for one problem. `best` is the best trial; None if nothing was measured."""

    search: SearchView
    best: TrialView | None


_SOURCES = {"measured": "measured on this device", "table": "from its datasheet"}


def mission_report(
    mission: Mission, results: Sequence[Result], works: Sequence[Work | None], missing: Sequence[str]
) -> str:
    """Return the report of the mission as Markdown.

    Args:
        works: minimum operation and byte counts of each result's problem; None if unknown.
        missing: one line for each item that `kernel-evo doctor` did not find.
    """
    parts = ["# Mission report", *_warnings(mission, results)]
    if results:
        parts += ["## Where", _where(results), _calibration(results)]
    if missing:
        parts += ["Missing on this machine:", "\n".join(f"- {line}" for line in missing)]
    for result, work in zip(results, works, strict=True):
        parts += [f"## {result.search.problem_key}", *_shape(mission, result, work)]
    parts += ["## Effort", _effort(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _warnings(mission: Mission, results: Sequence[Result]) -> Iterator[str]:
    if mission.rehearsal:
        yield (
            "**A rehearsal: small problems and few trials run the whole procedure once. The figures have no other "
            "meaning.**"
        )
    for model in dict.fromkeys(result.search.device.model for result in results):
        if model != mission.model:
            yield (
                f"**Timed on {model}, not on {mission.model}: the goals are for {mission.model}, and the times below "
                "do not predict its times.**"
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
    """Return a table of the device's peak rates and of the timing noise, as Markdown."""
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
        yield (
            f"The shortest possible time on this device is {limits}; the kernel reaches {reached} of this limit"
            f"{_by(search)}."
        )
        yield over_limit_text(limits.least_us / reached_us)
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
    found = "" if champion.search_id == search.id else f", found earlier by search {champion.search_id}"
    verdict, interval = champion.verdict, ""
    if verdict is not None and verdict.challenger is not None:
        low, high = verdict.challenger.low, verdict.challenger.high
        interval = f" Interval of its median {champion.timed}: {time_text(low)} to {time_text(high)}."
    return f"Champion {champion.id}{found}: `{settings_text(champion.config)}`.{interval}"


def _decision(search: SearchView) -> str:
    """Return a recommendation: keep the champion, use the baseline, or continue."""
    champion = search.champion
    if champion is None:
        return "Decision: nothing to keep yet; search longer, or check the failures (`kernel-evo trials`)."
    kept = saving(search, champion, champion.time_us)
    if kept is None:
        return "Decision: open; no baseline was timed with the champion, so its gain is not known."
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
    """Return the time in µs of the champion if there is one, else of the best trial; None if there is neither."""
    if result.search.champion is not None:
        return result.search.champion.time_us
    return None if result.search.best is None else result.search.best.time_us


def _by(search: SearchView) -> str:
    """Return a note that the time is from quick samples; empty for a confirmed time."""
    unconfirmed = search.champion is None and search.best is not None and search.best.source != "confirmed"
    return " (by quick samples, not confirmed)" if unconfirmed else ""


def _timing(result: Result) -> Timing | None:
    outcome = None if result.best is None else result.best.outcome
    return outcome.timing if isinstance(outcome, Measured) else None


def _environment(result: Result) -> Mapping[str, str]:
    return {} if result.best is None else result.best.environment


CACHES: tuple[Literal["hot", "cold"], ...] = ("hot", "cold")


@dataclass(frozen=True)
class Limits:
    """Roofline limits of a device in µs, by cache mode. The object is falsy if no limit is known."""

    floors_us: Mapping[str, float]

    @classmethod
    def of(cls, device: Device, work: Work | None, objective: Objective) -> "Limits":
        """Return the roofline limits of a device for a hot and for a cold cache."""
        floors_us: dict[str, float] = {}
        for cache in CACHES:
            limit = device_roofline(device, work, replace(objective, cache=cache))
            if limit is not None and limit.floor_us > 0:
                floors_us[cache] = limit.floor_us
        return cls(floors_us)

    def __bool__(self) -> bool:
        return bool(self.floors_us)

    def __str__(self) -> str:
        return " and ".join(f"{time_text(floor_us)} {cache}" for cache, floor_us in self.floors_us.items())

    @property
    def least_us(self) -> float:
        """The lower of the limits for a hot and a cold cache, in µs; 0 if no limit is known."""
        return min(self.floors_us.values(), default=0.0)


def goals_table(mission: Mission, search: SearchView, work: Work | None, reached_us: float) -> str:
    """Return a table of the goals with their status, as Markdown.

    In a rehearsal, no time is compared with a goal, because the problems are smaller.

    Args:
        work: minimum operation and byte counts of the problem; None if unknown.
        reached_us: time in µs of the champion if there is one, else of the best trial.
    """
    if mission.rehearsal:
        rows = [(time_text(goal.time_us), goal.source, "not compared") for goal in mission.goals]
        return table((f"goal on {mission.model}", "from", "in this rehearsal"), rows)
    limits = Limits.of(known(mission.model), work, search.objective)
    bound = f"\n\nThe shortest possible time on {mission.model} is {limits}, by its datasheet." if limits else ""
    same = search.device.model == mission.model
    judged = _on_the_goal_model if same else _on_another_model
    rows = [
        (time_text(goal.time_us), goal.source, f"{judged(goal, reached_us, limits.least_us)}{_by(search)}")
        for goal in mission.goals
    ]
    head = "on this device" if same else f"on {search.device.model}, which cannot be compared"
    return table((f"goal on {mission.model}", "from", head), rows) + bound


def _on_the_goal_model(goal: Goal, reached_us: float, least_us: float) -> str:
    """Return the status of a goal, for a search on the GPU model of the goal: reached, impossible or open.

    A goal is impossible if it is below the lowest possible time. A reached goal is never reported as impossible, even
    if it is below this time.

    Args:
        least_us: lowest possible time in µs, computed from the GPU's datasheet; 0 if unknown.
    """
    if reached_us <= goal.time_us:
        return "reached"
    return _impossible(goal, least_us) or f"open: the time is {factor_text(reached_us / goal.time_us)} the goal"


def _on_another_model(goal: Goal, reached_us: float, least_us: float) -> str:
    """Return the status of a goal, for a search on another GPU model than the goal's.

    Args:
        least_us: lowest possible time in µs, computed from the datasheet of the goal's GPU; 0 if unknown.
    """
    if impossible := _impossible(goal, least_us):
        return impossible
    if reached_us <= goal.time_us:
        return "a shorter time on this device"
    return f"a longer time on this device: {factor_text(reached_us / goal.time_us)} the goal"


def _impossible(goal: Goal, least_us: float) -> str | None:
    """Return the status of a goal below the lowest possible time `least_us` in µs; None for other goals."""
    return f"impossible in this dtype: it takes at least {time_text(least_us)}" if goal.time_us < least_us else None
