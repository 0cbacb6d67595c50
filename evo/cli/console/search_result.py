"""Prints the result of a search, with the ranked table, the champion and its evidence, and the next commands."""

from collections.abc import Sequence
from math import inf

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from evo.cli.console.display import duplicates_text, outcomes_text
from evo.cli.console.output import facts, table
from evo.export.called import called_text
from evo.export.compiled import FORMS
from evo.messages.view import ChallengeView, ChampionView, SearchView, TrialView
from evo.messages.view.champion import decision_text, retired_text, rules_text
from evo.messages.view.runs import RANKING, Runs
from evo.messages.view.search import gap_texts
from evo.messages.view.trial import same_binary
from evo.promotion import Rule, Verdict
from evo.promotion.statistics import Interval
from evo.search.gain import Gain
from evo.text.shell import command
from evo.text.wording import (
    bound_text,
    count_text,
    duration_text,
    factor_interval_text,
    factor_text,
    limit_words,
    outcome_text,
    over_limit_text,
    percent_text,
    processes_text,
    settings_text,
    significant,
    spaced_text,
    time_text,
)
from evo.trial import Config
from evo.trial.explain import detail_text
from evo.trial.objective import objective_text

REASONS = {
    "trials": "every trial of the budget has ended",
    "minutes": "the time limit was reached",
    "cost": "the cost limit was reached",
    "exhausted": "every valid config was tried",
    "stagnation": "no better trial for the given number of trials",
    "outperformed": "other variants were faster after the same number of trials",
    "duplicate": "the binaries of this variant equal those of earlier variants",
}

FRONT = 20
"""Maximum number of printed trials of the Pareto front."""

ESTIMATES = (
    "Estimates from compiler output and a datasheet. No kernel was run, checked or timed, and nothing is promoted. "
    "Atomics, bank conflicts, caches and instruction mixes are not modelled: many configs with equal estimates differ "
    "on a GPU."
)


def print_report(
    out: Console,
    view: SearchView,
    ranking: Sequence[TrialView],
    where: str,
    family: str,
    *,
    front: Sequence[TrialView] = (),
) -> None:
    """Print the result of a search.

    Args:
        ranking: best trials of the search, best trial first.
        family: name of the family, or the path of its folder.
        where: options that make other commands use the same service, e.g. `` --db x.db``.
        front: Pareto front of the search. Empty if the search has only one objective.
    """
    out.print(Text(_ending(view), "bold"))
    out.print(Text(f"{outcomes_text(view)}{_overhead(view)}\n", "dim"))
    if view.estimated:
        out.print(Text(f"{ESTIMATES}\n", "bold yellow"))
    if ranking:
        out.print(ranked(view, ranking))
        if any(each.source == "confirmed" for each in ranking):
            out.print(Text(RANKING, "dim"))
        if (note := _runs(view, ranking).note) is not None:
            out.print(Text(note, "dim"))
        out.print()
    if front:
        out.print(front_table(view, front))
        out.print()
    if view.not_compared is not None:
        out.print(Text(f"{view.not_compared}\n", "dim"))
    if view.gains:
        out.print(gains_text(view.gains))
        out.print()
    out.print(challenges_text(view.challenges, f"kernel-evo report {view.id}{where}"))
    if view.unchallenged is not None:
        out.print(Text(f"{view.unchallenged}\n", "yellow"))
    for warning in _further_warnings(view):
        out.print(Text(f"Warning. {warning}\n", "bold yellow"))
    if view.champion is not None:
        out.print(champion_text(view.champion, view))
        out.print()
    if view.rolled_back is not None:
        out.print(Text(f"{view.rolled_back[:1].upper()}{view.rolled_back[1:]}.\n", "bold yellow"))
    out.print(next_steps(view, where, family))


def print_failures(out: Console, trials: Sequence[TrialView]) -> None:
    """Print the first trial of each kind of failure with its details, for a search without any measured config.

    Running and cancelled trials are ignored.
    """
    shown = {"cancelled"}
    for trial in trials:
        if trial.outcome is None or trial.outcome.kind in shown:
            continue
        shown.add(trial.outcome.kind)
        kind = (outcome_text(trial.outcome.kind), "bold red")
        out.print(Text.assemble("\n", kind, f", e.g. trial {trial.number}: {spaced_text(trial.config)}"))
        out.print(Text(detail_text(trial.outcome)))


def ranked(view: SearchView, ranking: Sequence[TrialView]) -> Table:
    """Return a table of the best trials and the baselines. The title lists the tunables that are equal in all configs.

    Confirmed trials come first. Baselines are listed among the trials with quick times or, if the search has a metric,
    after them. Only trials have a rank, which is their position in `ranking`.
    """
    metric = view.objective.metric
    shared = _shared([trial.config for trial in ranking])
    duplicates, runs = same_binary(ranking), _runs(view, ranking)
    confirmed = sum(each.source == "confirmed" for each in ranking)
    rows: list[tuple[float, tuple[str, ...], str]] = []
    for rank, trial in enumerate(ranking, 1):
        value = () if metric is None else (view.objective.metric_text(trial.cost),)
        time = _time_cells(view, trial.time_us, runs.source(trial))
        config = f"{_remaining_text(trial.config, shared)}{duplicates_text(trial, duplicates)}"
        over, share = _speedup_cell(view, trial), _share(view, trial.time_us)
        rows.append((trial.cost or 0.0, (str(rank), str(trial.number), *value, *time, over, share, config), ""))
    for name, timing in view.baselines.items():
        value, time_us = () if metric is None else ("–",), timing.median_us
        time, over = _time_cells(view, time_us, "quick"), _against(view, time_us)
        cells = ("", "", *value, *time, over, _share(view, time_us), f"baseline {name}")
        rows.append((time_us if metric is None else inf, cells, "yellow"))
    heads = (">estimate",) if view.estimated else (">time", "source")
    heads = heads if metric is None else (f">{metric}", *heads)
    made = table(">rank", ">trial", *heads, f">vs {view.fastest_baseline or 'baseline'}", ">of limit", "config")
    made.title = f"The same in all configs: {spaced_text(shared)}" if shared else None
    made.title_style = "dim"
    provisional = sorted(rows[confirmed:], key=lambda row: row[0])  # equal costs keep their order
    for place, (_, cells, style) in enumerate([*rows[:confirmed], *provisional]):
        if place == confirmed:
            made.add_section()
        made.add_row(*cells[:-1], Text(cells[-1]), style=style)
    return made


def _time_cells(view: SearchView, time_us: float | None, source: str) -> tuple[str, ...]:
    shown = time_text(time_us, estimated=view.estimated)
    return (shown,) if view.estimated else (shown, source)


def front_table(view: SearchView, front: Sequence[TrialView]) -> Table:
    """Return a table of the first `FRONT` trials of a Pareto front, in the given order.

    The values are from quick samples or, in a search that runs no kernel, from estimates.
    """
    shared = _shared([trial.config for trial in front])
    made = table(">trial", *(f">{axis.called}" for axis in view.objective.axes or ()), "config")
    made.title = f"Pareto front of {count_text(len(front), 'trial')}{'' if view.estimated else ', by quick samples'}"
    made.title += f"; the same in all configs: {spaced_text(shared)}" if shared else ""
    made.title_style = "dim"
    for trial in front[:FRONT]:
        costs = trial.quick_cost, getattr(trial.outcome, "second_cost", None)
        cells = [
            axis.metric_text(cost) if axis.metric else time_text(cost, estimated=view.estimated)
            for axis, cost in zip(view.objective.axes or (), costs, strict=False)
        ]
        made.add_row(str(trial.number), *cells, Text(_remaining_text(trial.config, shared)))
    if len(front) > FRONT:
        made.caption = f"{len(front) - FRONT:,} more trials: `kernel-evo trials {view.id} --json` has all"
    return made


def _shared(configs: Sequence[Config]) -> Config:
    """Return the tunables whose values are equal in all configs. The result is empty for a single config."""
    first, *others = configs or [{}]
    return {name: value for name, value in first.items() if others and all(each[name] == value for each in others)}


def _remaining_text(config: Config, shared: Config) -> str:
    return spaced_text({name: value for name, value in config.items() if name not in shared})


def gains_text(gains: Sequence[Gain]) -> RenderableType:
    """Return the gains of a search over the default config and over the median random config, as text."""
    grid = facts()
    for gain in gains:
        grid.add_row(f"over {gain.over}", Text(gain.words, "" if gain.ratio is not None else "dim"))
    return Group(Text("Gain of the search", "bold"), grid)


def challenges_text(challenges: Sequence[ChallengeView], report: str) -> RenderableType:
    """Return the verdicts on all challengers as text.

    The last promotion is shown with all rules. Every other verdict is shown with its first unmet rule, unless the
    verdict's summary already contains the text of this rule.

    Args:
        report: command that writes all rules of all verdicts. It is shown if another verdict has several unmet rules.
    """
    at_length = _last_promotion(challenges)
    parts: list[RenderableType] = []
    for each in challenges:
        summary = Text.assemble((f"Trial {each.trial}: ", "bold"), _summary(each.verdict))
        if each is at_length:
            parts += [summary, *_counted(each.verdict), ""]
        else:
            deciding = [rule for rule in each.verdict.unmet[:1] if rule.text not in each.verdict.summary]
            parts += [Text(summary.plain, "dim"), *([_rules(deciding)] if deciding else []), ""]
    if any(len(each.verdict.unmet) > 1 for each in challenges if each is not at_length):
        parts += [Text(f"All rules of all challenges: {report}", "dim"), ""]
    return Group(*parts)


def _last_promotion(challenges: Sequence[ChallengeView]) -> ChallengeView | None:
    """Return the latest challenge that ended with a promotion; None if no trial was promoted."""
    return next((each for each in reversed(challenges) if each.verdict.promote), None)


def _further_warnings(view: SearchView) -> list[str]:
    """Return the warnings of a search, except the warning that repeats a rule of the last promotion.

    `challenges_text` prints all rules of the last promotion.
    """
    at_length = _last_promotion(view.challenges)
    said = () if at_length is None else gap_texts([at_length])
    return [each for each in view.warnings if each not in said]


def verdict_text(verdict: Verdict) -> RenderableType:
    """Return a verdict's summary, each rule with a symbol for its result, and the number of rules that are met."""
    return Group(_summary(verdict), *_counted(verdict))


def _counted(verdict: Verdict) -> tuple[Table, Text]:
    """Return all rules of a verdict, and the line that counts them."""
    return _rules(verdict.rules), Text(f"   {rules_text(verdict)}", "dim")


def _summary(verdict: Verdict) -> Text:
    return Text(verdict.summary, "bold green" if verdict.promote else "bold yellow")


def _rules(rules: Sequence[Rule]) -> Table:
    grid = Table.grid(padding=(0, 1))
    for rule in rules:
        grid.add_row("", _mark(rule), Text(rule.name, "bold"), Text(rule.text))
    return grid


def champion_text(champion: ChampionView, view: SearchView) -> RenderableType:
    """Return the details of a champion as text: config, time, speed-ups, share of the device's limit, and decisions.

    The time has a confidence interval if the champion's verdict contains one.

    Args:
        view: search whose policy, device, roofline and cache mode are used, e.g. the search that found the champion.
    """
    verdict = champion.verdict
    grid = facts()
    if champion.retired_reason is not None:
        grid.add_row("retired", Text(retired_text(champion), "bold yellow"))
    for each in champion.decisions[:-1] if champion.retired_reason is not None else champion.decisions:
        grid.add_row("history", Text(decision_text(each)))
    grid.add_row("problem", Text(spaced_text(champion.problem) or "the recorded one"))
    grid.add_row("objective", Text(objective_text(champion.objective)))
    grid.add_row("config", Text(spaced_text(champion.config)))
    if verdict is not None and verdict.metric is not None:
        grid.add_row("metric", Text(significant(verdict.metric), "bold green"))
    if verdict is not None and verdict.challenger is not None:
        grid.add_row("time", _timed(champion, interval_text(verdict.challenger, view.policy.confidence)))
    else:
        grid.add_row("time", _timed(champion, time_text(champion.time_us)))
    if (called := called_text(champion, view.device.kind)) is not None:
        grid.add_row("in PyTorch", Text(called, "" if champion.called is not None else "dim"))
    if verdict is not None and verdict.baseline is not None and verdict.baseline_speedup is not None:
        against = f"{speedup_text(verdict.baseline_speedup)} over {verdict.baseline}, the fastest baseline"
        grid.add_row(Text("speed-up", "dim"), Text(f"{against}, {processes_text(verdict.baseline_processes)}"))
    if verdict is not None and (alone := next((each for each in verdict.rules if each.name == "baselines"), None)):
        grid.add_row("", Text(alone.text, "yellow"))
    if verdict is not None and verdict.first_process is not None and verdict.baseline_processes > 1:
        grid.add_row("", Text(f"{speedup_text(verdict.first_process)} in the first process alone", "dim"))
    if verdict is not None and verdict.behind_every_baseline:
        grid.add_row("", Text("slower than every baseline: keep using a baseline", "bold yellow"))
    if view.roofline is not None and (share := view.roofline.share(champion.time_us)) is not None:
        limit = f"{percent_text(share)} of this device's limit ({time_text(view.roofline.floor_us)}, "
        grid.add_row("limit", Text(f"{limit}bound by {bound_text(view.roofline.bound)})"))
        grid.add_row("", Text(limit_words(view.objective.cache), "dim"))
        if reason := over_limit_text(share):
            grid.add_row("", Text(reason, "yellow"))
    title = Text.assemble(
        (f"Champion {champion.id}", "bold cyan"),
        f"  {champion.subject} {champion.problem_key}  ",
        (_origin(champion, view), "dim"),
    )
    return Group(title, grid)


def _timed(champion: ChampionView, time: str) -> Text:
    return Text.assemble((time, "bold green"), (f" {champion.timed}", "dim"))


def interval_text(interval: Interval, confidence: float) -> str:
    """Return a time with its confidence interval: ``812.3 µs (95% interval 809.1 µs to 815 µs)``."""
    span = f"{time_text(interval.low)} to {time_text(interval.high)}"
    return f"{time_text(interval.estimate)} ({confidence:.0%} interval {span})"


def speedup_text(interval: Interval) -> str:
    return factor_interval_text(interval.low, interval.estimate, interval.high)


def next_steps(view: SearchView, where: str, family: str) -> RenderableType:
    """Return a table of commands that the user may want to run next."""
    steps = {}
    if view.champion is not None:
        if view.device.kind in FORMS:
            steps["export the champion"] = f"kernel-evo champion export {view.champion.id}{where}"
        steps["show it again"] = f"kernel-evo champion show {view.champion.id}{where}"
    elif view.best is not None and not view.estimated and view.device.runs != "recordings":
        problem, config = settings_text(view.problem), settings_text(view.best.config)
        options = ("--problem", problem) if problem else ()
        steps["measure the best"] = command("measure", family, *options, "--config", config)
    steps["all trials"] = f"kernel-evo trials {view.id}{where}"
    grid = facts()
    for what, step in steps.items():
        grid.add_row(what, Text(step))
    return grid


def _ending(view: SearchView) -> str:
    done = f"{count_text(view.finished, 'trial')} in {duration_text(view.elapsed_s)}"
    done += "" if view.cost is None else f", which cost {view.cost:,.2f}"
    match view.state:
        case "finished":
            if view.reason == "stopped":
                return f"Stopped early. {done}."
            reason = REASONS.get(view.reason or "", view.reason)
            return f"Finished: {reason}. {done}." if reason else f"Finished. {done}."
        case "cancelled":
            return f"Cancelled. {done}."
        case "failed":
            return f"Failed: {view.reason}. {done}."
    return f"Still {view.state}: {done}."


def _overhead(view: SearchView) -> str:
    if view.overhead_ms is None:
        return ""
    overhead = f"; search overhead per trial {significant(view.overhead_ms)} ms"
    if view.delivery_ms is None:
        return overhead
    return f"{overhead}, delivery of jobs and results {significant(view.delivery_ms)} ms (overlaps with measuring)"


def _runs(view: SearchView, ranking: Sequence[TrialView]) -> Runs:
    return Runs.of(ranking, {view.id: view.challenges})


def _speedup_cell(view: SearchView, trial: TrialView) -> str:
    """Return a trial's speed-up as text; ``–`` if the speed-up is unknown.

    The column's title names the search's fastest baseline. If the speed-up is over another baseline, the text ends with
    the name of that baseline.
    """
    speedup = trial.speedup(view.baselines)
    if speedup is None:
        return "–"
    other = "" if speedup.against == view.fastest_baseline else f" {speedup.against}"
    return f"{factor_text(speedup.value)}{other}"


def _against(view: SearchView, time_us: float) -> str:
    if view.fastest_baseline is None or not time_us:
        return "–"
    return factor_text(view.baselines[view.fastest_baseline].median_us / time_us)


def _share(view: SearchView, time_us: float | None) -> str:
    return percent_text(None if view.roofline is None else view.roofline.share(time_us))


def _mark(rule: Rule) -> Text:
    if rule.passed:
        return Text("✓", "green")
    if not rule.conclusive:
        return Text("?", "yellow")
    return Text("✗", "red") if rule.required else Text("!", "yellow")


def _origin(champion: ChampionView, view: SearchView) -> str:
    state = "current" if champion.current else "retired"
    state += "" if champion.search_id == view.id else ", found by another search"
    device = f", {champion.place}" if champion.objective.target else f" on {champion.place}"
    return f"{state}; trial {champion.trial_number} of search {champion.search_id}{device}"
