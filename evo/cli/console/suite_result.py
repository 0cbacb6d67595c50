"""Prints the result of a suite as text or JSON: its calls, and a few configs that serve all problems of a family.

The slowdown of such configs on a problem is relative to the best measured config of this problem.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from evo.cli.console.output import styled, table
from evo.cli.exits import Exit
from evo.messages.view import SearchView
from evo.search.suite import Call, Suite
from evo.search.suite.selection import SIZES, ConfigSet, Measurements, Unseen, best_set, leave_one_out
from evo.text.wording import settings_text, spaced_text

LONG = "as long"


@dataclass(frozen=True, kw_only=True)
class SuiteResult:
    """Result of a suite's searches.

    Attributes:
        searched: the searched calls, each with one of its two searches: the second search (which tries the champions of
            similar problems) if it found the current champion, else the first search.
        left_out: reasons why calls were not searched, by name of the call.
        measured: times or costs of the best configs of a family on each of the family's problems, by family.
        interrupted: True if the user cancelled the run with a second Ctrl-C. A first Ctrl-C only ends the run early.
    """

    suite: Suite
    searched: Sequence[tuple[Call, SearchView]]
    left_out: Mapping[str, str]
    measured: Mapping[str, Measurements]
    interrupted: bool

    @property
    def long(self) -> str:
        """Words that follow a factor: ``as long`` or, in a search with a metric, ``the cost``."""
        metric = any(view.objective.metric is not None for _, view in self.searched)
        return "the cost" if metric else LONG

    @property
    def exit(self) -> Exit:
        if self.interrupted:
            return Exit.INTERRUPTED
        found = self.searched and all(view.best is not None for _, view in self.searched)
        return Exit.DONE if found else Exit.NOTHING_FOUND


def print_suite(out: Console, result: SuiteResult, size: int, where: str) -> None:
    """Print the calls with their times, then for each family at most `size` configs, with the calls of each config.

    No configs are selected for a family with fewer than two problems.

    Args:
        where: options that make another command use the same service.
    """
    suite = result.suite
    out.print(styled("\n", (f"Suite {suite.name}", "bold")))
    rows = table("call", "family", "problem", ">time", "over the fastest baseline", "champion")
    for call, view in result.searched:
        speedup = None if view.best is None else view.best.speedup
        over = "–" if speedup is None else f"{speedup.text} {speedup.against}"
        champion = "none" if view.champion is None else str(view.champion.id)
        time = "–" if view.best is None else view.best.time.text
        rows.add_row(call.name, view.family, spaced_text(call.problem), time, over, champion)
    out.print(rows)
    for name, reason in result.left_out.items():
        out.print(f"{name} was not searched: {reason}")
    for family, measurements in result.measured.items():
        _print_family(out, family, measurements, size, long=result.long)
    if any(view.champion is not None for _, view in result.searched):
        out.print(styled("\nUse them:  ", (f"kernel-evo export --suite {suite.source} --to ./fast{where}", "bold")))


def _print_family(out: Console, family: str, measured: Measurements, size: int, *, long: str) -> None:
    if len(measured.problems) < 2:
        return
    out.print(styled("\n", (f"Small sets of configs for {family}", "bold"), ", compared with one config per problem:"))
    for count in dict.fromkeys((*SIZES, size)):
        chosen = best_set(measured, count)
        if count > size and count > len(chosen.members):
            continue
        out.print(f"  {count} config{'s' if count > 1 else ''}: {set_text(chosen, len(measured.problems), long)}")
    chosen = best_set(measured, size)
    out.print(f"  on a problem left out of the selection: {unseen_text(leave_one_out(measured, size), long)}")
    for number, member_index in enumerate(chosen.members, start=1):
        calls = [name for name, member in chosen.table.items() if member == member_index]
        out.print(f"  config {number} for {', '.join(calls)}: {settings_text(measured.configs[member_index])}")


def set_text(chosen: ConfigSet, problems: int, long: str = LONG) -> str:
    """Describe the slowdown if only the chosen configs are used: ``1.030 times as long on average, at most 1.10``.

    Args:
        problems: number of problems of the family.
        long: words after the factor; see `SuiteResult.long`.
    """
    covered = len(chosen.table)
    text = f"{chosen.cost:.3f} times {long} on average, at most {chosen.worst:.2f}"
    return text if covered == problems else f"{text}; measured on {covered} of {problems} problems"


def unseen_text(found: Unseen, long: str = LONG) -> str:
    """Describe the slowdown on problems that were not used to choose the configs.

    Args:
        long: words after the factor; see `SuiteResult.long`.
    """
    if found.loss is None or found.worst is None:
        return "unknown: no selected config was measured on the problem that was left out"
    text = f"{found.loss:.3f} times {long} on average, at most {found.worst:.2f}, over {found.judged} such problems"
    return text if not found.unmeasured else f"{text}; {found.unmeasured} more have no measurement"


def suite_document(result: SuiteResult, size: int) -> dict[str, Any]:
    """Return the result as a JSON document, with a set of at most `size` configs for each family."""
    return {
        "suite": result.suite.name,
        "goal": result.suite.goal,
        "calls": [_call(call, view) for call, view in result.searched],
        "left_out": dict(result.left_out),
        "families": {family: _family(each, size) for family, each in result.measured.items()},
    }


def _call(call: Call, view: SearchView) -> dict[str, Any]:
    speedup = None if view.best is None else view.best.speedup
    return {
        "name": call.name,
        "family": view.family,
        "problem": view.problem,
        "weight": call.weight,
        "search": view.id,
        "champion": None if view.champion is None else view.champion.id,
        "time_us": None if view.best is None else view.best.time_us,
        "source": None if view.best is None else view.best.source,
        "config": None if view.best is None else view.best.config,
        "speedup": None if speedup is None else speedup.value,
        "baseline": None if speedup is None else speedup.against,
    }


def _family(measured: Measurements, size: int) -> dict[str, Any]:
    chosen, unseen = best_set(measured, size), leave_one_out(measured, size)
    sizes = {count: best_set(measured, count) for count in dict.fromkeys((*SIZES, size))}
    return {
        "configs": [measured.configs[member_index] for member_index in chosen.members],
        "table": {call: chosen.members.index(member_index) for call, member_index in chosen.table.items()},
        "problems": measured.problems,
        "sizes": {
            str(count): {
                "configs": len(each.members),
                "cost": each.cost,
                "worst": each.worst,
                "problems": len(each.table),
            }
            for count, each in sizes.items()
        },
        "unseen": {
            "cost": unseen.loss,
            "worst": unseen.worst,
            "judged": unseen.judged,
            "unmeasured": unseen.unmeasured,
        },
    }
