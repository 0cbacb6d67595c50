"""The terminal shows updates during a search, and the final report."""

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from evo.cli.console.display import LineScreen, LiveScreen, head, left_text, screen, speedup_text
from evo.cli.console.output import console, facts, styled, table
from evo.cli.console.search_result import print_failures, print_report
from evo.messages.view import (
    ChallengeView,
    ChampionView,
    ProvingView,
    RooflineView,
    SpaceView,
    WarmStartView,
    WorkingView,
)
from evo.messages.view.champion import CalledTime, rules_text
from evo.promotion import Rule, Verdict
from evo.search.search import Budget
from evo.trial.outcome import Cancelled, Crashed
from tests.unit.views import CHAMPION, NOW, PROMOTED, REFUSED, ROLLED_BACK, VERDICT, finished, trial, view


def shown(*parts: object, width: int = 160) -> str:
    page = Console(file=io.StringIO(), width=width)
    for part in parts:
        page.print(part)
    written = page.file
    assert isinstance(written, io.StringIO)
    return written.getvalue()


def reported(*arguments: object) -> str:
    console = Console(file=io.StringIO(), width=160)
    print_report(console, *arguments)  # type: ignore[arg-type]
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_search_heading_shows_settings_and_size_of_the_space() -> None:
    text = shown(head(view(), "http://127.0.0.1:1/searches/3"))
    assert "plus the confirmation of the best" in text
    for part in (
        "Search 3  sdpa",
        "B=1, causal=false",
        "4,608 valid configs of 36,864 combinations",
        "AMD EPYC  (cpu, x86_64+avx2; hot, 1 thread)",
        "portfolio, seed 7, policy default",
        "2 min 00 s",
        "http://127.0.0.1:1/searches/3",
    ):
        assert part in text


def test_search_heading_states_that_the_space_is_too_large_to_count() -> None:
    text = shown(head(view(space=SpaceView(product_size=10**12, valid_count=None)), ""))
    assert "1,000,000,000,000" in text
    assert "too many to count" in text
    assert "too many to count" not in shown(head(view(space=SpaceView(product_size=10**12, valid_count=7)), ""))


def test_live_panel_shows_progress_best_trial_and_outcomes() -> None:
    with screen(Console(file=io.StringIO(), force_terminal=True, width=160)) as live:
        assert isinstance(live, LiveScreen)
        text = shown(live.panel(view()))
    for part in (
        "43 trials in 1 min 05 s",
        "55 s left",
        "812.3 µs (quick)  trial 12: BLOCK=8, FAST=true",
        "3.45× (quick) over numpy (2.8 ms), 60% of this device's limit",
        "40 measured · 2 compile failed · 1 wrong answer",
    ):
        assert part in text


def test_live_panel_states_that_nothing_was_measured_yet() -> None:
    early = view(best=None, baselines={}, fastest_baseline=None, speedup=None, roofline=None, counts={})
    with screen(Console(file=io.StringIO(), force_terminal=True, width=160)) as live:
        assert isinstance(live, LiveScreen)
        text = shown(live.panel(early))
    assert "none measured yet" in text
    assert "no baseline measured yet" in text
    assert speedup_text(view(speedup=None, roofline=None)) == "to beat: numpy (2.8 ms)"


@pytest.mark.parametrize(
    ("changes", "left", "done"),
    [
        ({}, "55 s left", 65 / 120),
        ({"elapsed_s": 125.0}, "confirming the best trial", 1.0),
        ({"budget": Budget(trials=100)}, "57 trials left", 0.43),
        ({"budget": Budget(trials=43), "asked": 43}, "confirming the best trial", 1.0),
        ({"budget": Budget(stagnation=9)}, "no limit", 43 / 4608),
        ({"state": "stopping", "asked": 43}, "confirming the best trial", 65 / 120),
        (
            {"state": "stopping", "asked": 43, "baselines": {}},
            "timing the baselines, then confirming the best trial",
            65 / 120,
        ),
        ({"state": "stopping"}, "finishing 1 trial", 65 / 120),
        ({"state": "paused"}, "paused", 65 / 120),
    ],
)
def test_remaining_budget_is_shown_in_the_unit_of_its_limit(changes: dict[str, object], left: str, done: float) -> None:
    assert left_text(view(**changes)) == left
    assert view(**changes).share_done == pytest.approx(done)


def test_output_to_a_pipe_has_one_line_per_change() -> None:
    console = Console(file=io.StringIO(), width=200)
    lines = LineScreen(console)
    for finished_trials in (43, 44, 45):
        lines.show(view(finished=finished_trials))
    lines.show(view(state="stopping"))
    assert isinstance(console.file, io.StringIO)
    first, second = console.file.getvalue().splitlines()
    assert first.startswith("1 min 05 s: 43 trials (40 measured · ")
    assert first.endswith(
        "best 812.3 µs (quick), 3.45× (quick) over numpy (2.8 ms), 60% of this device's limit; 55 s left"
    )
    assert second.endswith("finishing 1 trial")


def test_output_to_a_pipe_names_the_search_if_several_are_shown() -> None:
    console = Console(file=io.StringIO(), width=200)
    lines = LineScreen(console)
    for search_id in (7, 8, 7):
        lines.show(replace(view(), id=search_id))
    assert isinstance(console.file, io.StringIO)
    first, second, third = console.file.getvalue().splitlines()
    assert first.startswith("1 min 05 s: ")
    assert (second[:10], third[:10]) == ("search 8, ", "search 7, ")


def test_output_to_a_pipe_has_a_line_when_a_confirmation_begins() -> None:
    console = Console(file=io.StringIO(), width=200)
    lines = LineScreen(console)
    for proving in (None, ProvingView(job="confirm", trial=12), ProvingView(job="confirm", trial=12, elapsed_s=1.0)):
        lines.show(view(state="stopping", asked=43, proving=proving))
    assert isinstance(console.file, io.StringIO)
    first, second = console.file.getvalue().splitlines()
    assert first.endswith("; confirming the best trial") and "; confirming trial 12" in second


@pytest.mark.parametrize("terminal", [True, False])
def test_display_names_the_current_job_if_it_takes_long(terminal: bool) -> None:
    """Without the name, a person cannot tell a long job from a search that hangs."""
    console = Console(file=io.StringIO(), width=200, force_terminal=terminal)
    with screen(console) as each:
        for elapsed_s in (4.0, 40.0):
            working = WorkingView(trial=3, since=NOW, elapsed_s=elapsed_s, detail="verifying")
            each.show(view(id=int(elapsed_s), working=working))
    assert isinstance(console.file, io.StringIO)
    assert "trial 3 for 40 s: verifying" in console.file.getvalue()
    assert "trial 3 for 4 s" not in console.file.getvalue()


def test_output_without_terminal_uses_the_line_display() -> None:
    with screen(Console(file=io.StringIO())) as plain:
        assert isinstance(plain, LineScreen)


def test_report_names_missing_baselines_with_the_reason() -> None:
    missing = {
        "eager": "ImportError: no torch",
        "compiled": "ImportError: no torch",
        "own": "OSError: a" + 900 * "c",
    }
    text = " ".join(reported(replace(finished(), missing_baselines=missing), [], "", "sdpa").split())
    assert "Not compared: eager, compiled (ImportError: no torch); own (OSError: a" in text
    assert "cc…)." in text.replace(" ", "")
    assert "c" * 200 not in text.replace(" ", "")
    assert "could be measured" in speedup_text(
        view(best=None, baselines={}, fastest_baseline=None, roofline=None, missing_baselines=missing)
    )
    assert "Not compared" not in reported(finished(), [], "", "sdpa")


def test_report_ranks_trials_and_lists_baselines_among_them_without_a_rank() -> None:
    text = reported(finished(), [trial(12, 812.34), trial(3, 2850.0, BLOCK=16)], "", "sdpa")
    rows = [" ".join(line.split()) for line in text.splitlines() if "BLOCK=" in line[40:] or "baseline n" in line[40:]]
    assert rows == [
        "1 12 812.3 µs quick 3.45× 60% BLOCK=8",
        "2.8 ms quick 1.00× 18% baseline numpy",
        "2 3 2.85 ms quick 0.982× 17% BLOCK=16",
        "9 ms quick 0.311× 5.4% baseline naive",
    ]
    assert "The same in all configs: FAST=true" in text


def test_report_shows_champion_verdict_and_next_steps() -> None:
    text = " ".join(reported(finished(), [trial(12, 812.34)], " --db x.db", "sdpa").split())
    for part in (
        "Finished: the time limit was reached. 43 trials in 2 min 01 s.",
        "search overhead per trial 9.2 ms, delivery of jobs and results 25 ms (overlaps with measuring)",
        "Trial 12: Promoted: the first champion.",
        "✓ first There is no incumbent.",
        "! noise It is noisy here.",
        "Champion 5 sdpa B=1,causal=false",
        "810 µs (95% interval 805 µs to 815.2 µs)",
        "3.450× (3.410 to 3.500) over numpy, the fastest baseline, in one process",
        "60% of this device's limit (490 µs, bound by arithmetic)",
        "kernel-evo champion export 5 --db x.db",
        "kernel-evo champion show 5 --db x.db",
        "kernel-evo trials 3 --db x.db",
    ):
        assert part in text


@pytest.mark.parametrize(("kind", "offered"), [("cpu", True), ("cuda", True), ("replay", False)])
def test_report_suggests_an_export_only_for_kinds_that_can_be_exported(kind: str, *, offered: bool) -> None:
    view = finished()
    text = reported(replace(view, device=replace(view.device, kind=kind)), [], "", "sdpa")
    assert ("champion export" in text) == offered
    assert "champion show" in text


def test_report_explains_a_champion_above_100_percent_of_the_limit() -> None:
    def shown(floor_us: float) -> str:
        limit = RooflineView(floor_us=floor_us, bound="compute", share_of_best=floor_us / 810)
        return " ".join(reported(replace(finished(), roofline=limit), [], "", "sdpa").split())

    assert "125% of this device's limit" in shown(1012.5) and "More than 100 %: the limit is too low." in shown(1012.5)
    assert "More than 100 %" not in shown(810.0)


def test_report_states_the_time_per_pytorch_call_of_the_champion() -> None:
    def shown(champion: ChampionView) -> str:
        return " ".join(reported(finished(champion=champion), [], "", "sdpa").split())

    assert " in PyTorch not measured: `kernel-evo export" in shown(CHAMPION)
    assert "in PyTorch" not in shown(replace(CHAMPION, family="saxpy")), "no such PyTorch function"
    called = CalledTime(called_us=900.0, torch_us=1350.0, model="NVIDIA L4", software="PyTorch 2.13.0", at=NOW)
    text = shown(replace(CHAMPION, called=called))
    assert " in PyTorch 900 µs, 1.50× as fast as PyTorch's own function" in text
    assert "on NVIDIA L4, 2026-01-02" in text


def test_report_labels_a_champion_slower_than_every_baseline() -> None:
    behind = {**vars(VERDICT), "behind_every_baseline": True}
    champion = {**vars(CHAMPION), "verdict": type(VERDICT)(**behind)}
    label = "slower than every baseline"
    assert label in reported(finished(champion=type(CHAMPION)(**champion)), [], "", "sdpa")
    assert label not in reported(finished(champion=CHAMPION), [], "", "sdpa")


@pytest.mark.parametrize(
    ("changes", "ending"),
    [
        ({"reason": "exhausted"}, "Finished: every valid config was tried."),
        ({"reason": "stopped"}, "Stopped early."),
        ({"state": "cancelled", "reason": None}, "Cancelled. 43 trials"),
        ({"state": "failed", "reason": "the family is gone"}, "Failed: the family is gone. 43 trials"),
    ],
)
def test_report_states_the_reason_why_the_search_ended(changes: dict[str, object], ending: str) -> None:
    assert reported(finished(**changes), [], "", "sdpa").startswith(ending)


def test_report_does_not_show_cancelled_trials_as_failures() -> None:
    out = Console(file=io.StringIO(), width=160)
    cancelled = replace(trial(1, 8.0), outcome=Cancelled())
    print_failures(out, [cancelled, replace(trial(2, 8.0), outcome=Crashed(stage="verify", reason="SIGSEGV"))])
    assert isinstance(out.file, io.StringIO)
    text = out.file.getvalue()
    assert "crashed, e.g. trial 2" in text and "during verify: SIGSEGV" in text and "cancelled" not in text


def test_report_without_champion_has_the_command_that_measures_the_best_config() -> None:
    text = reported(finished(champion=None, challenges=()), [trial(12, 812.34)], "", "sdpa")
    assert "kernel-evo measure sdpa --problem B=1,causal=false --config BLOCK=8,FAST=true" in text


def test_report_shows_refused_challengers_rolled_back_champions_and_why_a_trial_did_not_challenge() -> None:
    duplicates = [replace(trial(number, 812.34), binary_digest="ab") for number in (12, 14)]
    ended = finished(champion=None, challenges=(REFUSED, PROMOTED), retired=(ROLLED_BACK,))
    text = reported(ended, duplicates, "", "sdpa")
    assert "The challenger takes 1.0% less time; at least 2.0% less is needed." in text
    assert "Champion 5 was rolled back: wrong for NaN." in text
    assert "(same binary as trial 12)" in text
    why = "Trial 12 (812.3 µs) did not challenge: champion 4 took 800 µs here."
    assert why in reported(finished(challenges=(), unchallenged=why), [], "", "sdpa")
    behind = replace(CHAMPION, verdict=replace(VERDICT, behind_every_baseline=True))
    assert "slower than every baseline" in reported(finished(champion=behind), [], "", "sdpa")


def test_rules_that_are_only_reported_are_counted_apart_from_required_rules() -> None:
    assert "1 of 1 required rule met; 1 more is only reported." in reported(finished(), [], "", "sdpa")
    required = tuple(replace(rule, required=True) for rule in VERDICT.rules)
    assert rules_text(replace(VERDICT, rules=required)) == "1 of 2 required rules met."


def test_refused_challenger_is_shown_with_its_first_unmet_rule() -> None:
    names = ("gain", "noise", "intervals", "effect")
    rules = tuple(Rule(name=name, passed=False, figure=0.0, threshold=1.0, text=f"Too low: {name}.") for name in names)
    refused = ChallengeView(trial=7, verdict=Verdict(promote=False, summary="Not promoted.", rules=rules))
    text = reported(finished(champion=None, challenges=(refused, refused)), [], " --db x.db", "sdpa")
    assert text.count("Too low: gain.") == 2
    assert not any(f"Too low: {name}." in text for name in names[1:])
    assert text.count("All rules of all challenges: kernel-evo report 3 --db x.db") == 1
    stated = replace(refused.verdict, summary="Not promoted. Too low: gain.", rules=rules[:1])
    once = reported(finished(challenges=(replace(refused, verdict=stated),)), [], "", "sdpa")
    assert once.count("Too low: gain.") == 1 and "All rules" not in once


def test_display_shows_the_warm_start_and_the_cost() -> None:
    given = WarmStartView(source="cache.json", used=20, invalid=3, spare=0)
    text = shown(head(view(warm_start=given, budget=Budget(cost=5.0, cost_per_hour=0.68)), ""))
    assert "20 configs of cache.json first (3 not in this space)" in text
    assert "a cost of 5.00, plus the confirmation of the best trial" in text
    assert view(budget=Budget(cost=5.0, cost_per_hour=1.0), cost=2.5).share_done == 0.5
    ended = finished(budget=Budget(cost=5.0, cost_per_hour=1.0), cost=5.0, reason="cost")
    assert "the cost limit was reached. 43 trials in 2 min 01 s, which cost 5.00." in reported(ended, [], "", "sdpa")


def test_table_wider_than_the_terminal_becomes_a_list() -> None:
    rows = table(">trial", "outcome", "config", "notes", title="Trials")
    rows.add_row("7", "compile failed", f"BLOCK={'8' * 60}", "")
    wide, narrow = ([line.split() for line in shown(rows, width=width).splitlines()] for width in (80, 20))
    assert wide[:2] == [["Trials"], ["trial", "outcome", "config", "notes"]]
    assert narrow[:3] == [["Trials"], ["trial", "7"], ["outcome", "compile"]]
    assert "notes" not in str(narrow), "the list omits empty rows"


def test_report_keeps_the_service_order_of_trials_with_equal_times() -> None:
    ranking = [trial(9, 3.0, BLOCK=8), trial(10, 3.0, BLOCK=16), trial(2, 5.0, BLOCK=4)]
    lines = reported(finished(), ranking, "", "sdpa").splitlines()
    numbered = [line.split()[:2] for line in lines if "BLOCK=" in line and line.split()[0].isdigit()]
    assert numbered == [["1", "9"], ["2", "10"], ["3", "2"]]


@pytest.mark.parametrize("width", [1, 5, 10, 14])
def test_table_values_are_below_their_names_in_narrow_terminals(width: int) -> None:
    rows = table(">trial", "outcome", "config")
    rows.add_row("7", "measured", "BLOCK=8")
    told = facts()
    told.add_row("speed-up", "3.81 times")
    for shown_text in (shown(rows, width=width), shown(told, width=width)):
        assert max(map(len, shown_text.splitlines())) <= width
        held = "".join(shown_text.split())
        assert all(value in held for value in (("7", "measured", "BLOCK=8") if "trial" in held else ("3.81times",)))


@pytest.mark.parametrize("text", ["a[/b]", "[red]z", ":smile:", "[link=http://x]y[/link]", "\\[bold]"])
def test_console_prints_brackets_and_colons_literally(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    console().print(f"wrote {text}")
    console().print(styled("Try it: ", (text, "bold")))
    rows = table("name", title=text)
    rows.add_row(text)
    console().print(rows)
    assert capsys.readouterr().out.count(text) == 4


def test_tables_keep_their_width_with_a_dumb_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On CI machines, the output is not a terminal, colours are forced, and TERM is `dumb`."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    rows = table("one", "two")
    rows.add_row("x" * 90, "y" * 90)
    console().print(rows)
    assert f"{'x' * 90}   {'y' * 90}" in capsys.readouterr().out


def test_display_of_a_family_without_baselines_does_not_wait_for_a_baseline() -> None:
    none: dict[str, Any] = {"speedup": None, "roofline": None, "baselines": {}, "fastest_baseline": None, "best": None}
    assert speedup_text(view(**none)) == "no baseline measured yet"
    assert speedup_text(view(**none, baselines_done=True)) == "no baseline"
    assert speedup_text(view(**none, state="failed")) == "no baseline"
