"""Displays a running search: a header, then a live panel on a terminal, or single lines on other outputs."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from evo.cli.console.output import facts
from evo.device import kind_of
from evo.messages.view import SearchView, TrialView, WarmStartView
from evo.messages.worker_state import SERVED, confirmation_text, progress_text
from evo.search.lifecycle import TERMINAL
from evo.text.wording import count_text, duration_text, factor_text, outcome_text, percent_text, spaced_text, time_text

LINE_EVERY_S = 5.0
SHORT = 20
"""Number of characters that fit after the progress bar on any terminal. A longer text is shown on a separate line."""
_GOOD = ("measured", "estimated")


def head(view: SearchView, page: str) -> RenderableType:
    """Return the header: the search's settings, the size of its space, and the URL of its page."""
    device, objective = view.device, view.objective
    threads = f", {count_text(objective.threads, 'thread')}" if kind_of(device.kind).on_host else ""
    terms = f"{objective.cache}{threads}"
    rows = {
        "problem": spaced_text(view.problem) or "the recorded one",
        "space": space_text(view),
        "device": f"{view.place}  ({terms if objective.target else f'{device.kind}, {device.architecture}; {terms}'})",
        "strategy": f"{view.strategy}, seed {view.seed}, policy {view.policy.name}",
        "budget": budget_text(view),
        **({} if objective.second is None else {"objectives": " and ".join(objective.goals)}),
        "leaderboard": page,
    }
    if view.warm_start is not None:
        rows["warm start"] = warm_start_text(view.warm_start)
    grid = facts()
    for name, value in rows.items():
        grid.add_row(name, Text(value))
    return Group(Text.assemble(("Search ", "bold"), (f"{view.id}  {view.subject}", "bold cyan")), grid, "")


def space_text(view: SearchView) -> str:
    product, valid = view.space.product_size, view.space.valid_count
    if valid is None:
        return f"{product:,} combinations, too many to count the valid ones"
    return f"{count_text(valid, 'valid config')} of {count_text(product, 'combination')}"


def warm_start_text(view: WarmStartView) -> str:
    left = [
        f"{view.invalid:,} not in this space" if view.invalid else None,
        f"{view.spare:,} more omitted" if view.spare else None,
    ]
    rest = ", ".join(part for part in left if part)
    return f"{view.words} first" + (f" ({rest})" if rest else "")


def budget_text(view: SearchView) -> str:
    budget = view.budget
    parts = [
        None if budget.minutes is None else duration_text(60 * budget.minutes),
        None if budget.trials is None else count_text(budget.trials, "trial"),
        None if budget.cost is None else f"a cost of {budget.cost:,.2f}",
        None if budget.stagnation is None else f"{count_text(budget.stagnation, 'trial')} without a better one",
    ]
    limits = ", or ".join(part for part in parts if part)
    if limits and view.estimated:
        return limits
    return (
        f"{limits}, plus the confirmation of the best trial"
        if limits
        else "none: the search runs until the space is exhausted or you stop it"
    )


def left_text(view: SearchView) -> str:
    """Return the remaining budget as text.

    For a search that waits or proposes no more trials, return the reason for the wait, the current step or the state.
    """
    if (waits := view.obstacle or view.unserved) is not None and view.state in SERVED:
        return f"waits: {waits.rstrip('.')}"
    idle = view.asked == view.finished
    if idle and (view.state == "stopping" or (view.state == "running" and view.share_done >= 1.0)):
        timed = view.baselines or view.baselines_done or view.device.runs != "kernels"
        alone = "confirming the best trial" if timed else "timing the baselines, then confirming the best trial"
        alone = alone if view.best is not None else "ending"
        return alone if view.proving is None else confirmation_text(view.proving)
    if view.state != "running":
        under_way = f"finishing {count_text(view.asked - view.finished, 'trial')}"
        ending = under_way if view.state == "stopping" else view.state
        return ending if view.proving is None else confirmation_text(view.proving)
    if view.budget.minutes is not None:
        left = 60 * view.budget.minutes - view.elapsed_s
        return f"{duration_text(left)} left" if left > 0 else "confirming the best trial"
    if view.budget.trials is not None:
        return f"{count_text(max(0, view.budget.trials - view.finished), 'trial')} left"
    return "no limit"


def meanwhile_text(view: SearchView) -> str | None:
    """Return the progress of a running confirmation or long job; None if none runs, or if `left_text` states it."""
    text = progress_text(view)
    return None if text == left_text(view) else text


def best_text(view: SearchView) -> str:
    if view.best is None:
        return "none estimated yet" if view.estimated else "none measured yet"
    return f"{best_time_text(view)}  trial {view.best.number}: {spaced_text(view.best.config)}"


def best_time_text(view: SearchView) -> str:
    """Return the best trial's time as text, e.g. ``10.8 µs (confirmed)``, ``10.8 µs (quick)`` or, for an estimate,
    ``≈ 10.8 µs``.

    In a search with a metric, the metric value comes first: ``812 at 10.8 µs (quick)``. Without a best trial, the text
    is a dash.
    """
    if view.best is None:
        return "–"
    if view.objective.metric is not None:
        return f"{view.objective.metric_text(view.best.cost)} at {view.best.time.text}"
    return view.best.time.text


def unconfirmed_text(view: SearchView) -> str | None:
    """Return a note on an unconfirmed trial with a shorter quick time than the best trial; None if there is none."""
    found = view.unconfirmed
    if found is None or view.best is None:
        return None
    ours, best = time_text(found.time_us), time_text(view.best.quick_us)
    return f"trial {found.number} looks faster, not confirmed: {ours} in quick samples, {best} for the best trial"


def speedup_text(view: SearchView) -> str:
    """Return a comparison of the best trial with the fastest baseline and with the device's limit, as text.

    If neither comparison is possible, the text states the reason, e.g. ``no baseline``.
    """
    parts = []
    speedup = None if view.best is None else view.best.speedup
    if speedup is not None and speedup.confirmed:
        parts.append(f"{factor_text(speedup.value)} over {speedup.against} (confirmed)")
    elif view.fastest_baseline is not None:
        baseline = view.baselines[view.fastest_baseline]
        against = f"{view.fastest_baseline} ({time_text(baseline.median_us)})"
        parts.append(f"{factor_text(view.speedup)} (quick) over {against}" if view.speedup else f"to beat: {against}")
    if view.roofline is not None and view.roofline.share_of_best:
        whose = "the target" if view.estimated else "this device"
        parts.append(f"{percent_text(view.roofline.share_of_best)} of {whose}'s limit")
    if parts:
        return ", ".join(parts)
    if view.estimated:
        return "nothing is run"
    if view.device.runs == "recordings":
        return "no baseline"
    if view.missing_baselines:
        return "no baseline could be measured"
    return "no baseline" if view.baselines_done or view.state in TERMINAL else "no baseline measured yet"


def outcomes_text(view: SearchView) -> str:
    if not view.counts:
        return "none yet"
    ordered = sorted(view.counts.items(), key=lambda item: (item[0] not in _GOOD, -item[1]))
    return " · ".join(f"{count:,} {outcome_text(kind)}" for kind, count in ordered if count)


class LiveScreen:
    """A panel that redraws itself. Notes are printed above the panel."""

    def __init__(self, console: Console, live: Live) -> None:
        self._console = console
        self._live = live
        self._spinner = Spinner("dots", style="cyan")

    def show(self, view: SearchView) -> None:
        self._live.update(self.panel(view))

    def note(self, text: str) -> None:
        self._console.print(Text(text, "yellow"))

    def panel(self, view: SearchView) -> RenderableType:
        status = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=1.0, completed=view.share_done, width=32)
        running = f"Search {view.id}: {count_text(view.finished, 'trial')} in {duration_text(view.elapsed_s)}"
        left, grid = Text(left_text(view), "cyan"), facts()
        beside = [] if len(left) > SHORT else [left]
        status.add_row(self._spinner, Text(running, "bold"), bar, *beside)
        if not beside:
            grid.add_row("now", left)
        grid.add_row("best", Text(best_text(view), "bold green" if view.best else ""))
        grid.add_row("speed-up", Text(speedup_text(view)))
        if (faster := unconfirmed_text(view)) is not None:
            grid.add_row("", Text(faster))
        grid.add_row("outcomes", Text(outcomes_text(view)))
        if (meanwhile := meanwhile_text(view)) is not None:
            grid.add_row("meanwhile", Text(meanwhile))
        return Group(status, grid)


class LineScreen:
    """Display for logs and pipes. It prints a line every few seconds, and when the best trial, the state or the
    confirmation changes.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said: tuple[object, ...] = ()
        self._at = float("-inf")
        self._searches: set[int] = set()

    def show(self, view: SearchView) -> None:
        self._searches.add(view.id)
        which = f"search {view.id}, " if len(self._searches) > 1 else ""
        figures = [best and (best.number, best.source) for best in (view.best, view.unconfirmed)]
        proving = view.proving and (view.proving.job, view.proving.trial)
        news = (view.id, view.state, *figures, proving)
        if news == self._said and time.monotonic() - self._at < LINE_EVERY_S:
            return
        self._said, self._at = news, time.monotonic()
        best, faster, meanwhile = best_time_text(view), unconfirmed_text(view), meanwhile_text(view)
        self._console.print(
            f"{which}{duration_text(view.elapsed_s)}: {count_text(view.finished, 'trial')} ({outcomes_text(view)}), "
            f"best {best}, {speedup_text(view)}{'' if faster is None else f', {faster}'}; {left_text(view)}"
            f"{'' if meanwhile is None else f'; {meanwhile}'}",
            soft_wrap=True,
        )

    def note(self, text: str) -> None:
        self._console.print(text, soft_wrap=True)


@contextmanager
def screen(console: Console) -> Iterator[LiveScreen | LineScreen]:
    """Yield the display for the output: a live panel on a terminal, else lines."""
    if not console.is_terminal:
        yield LineScreen(console)
        return
    with unechoed(), Live(console=console, refresh_per_second=4, transient=True) as live:
        yield LiveScreen(console, live)


def duplicates_text(trial: TrialView, duplicates: Mapping[int, int]) -> str:
    """Return ` (same binary as trial 3)` if an earlier trial has the same binary, else an empty string.

    Args:
        duplicates: number of the earlier trial, by the number of the later trial; see `same_binary`.
    """
    return f" (same binary as trial {duplicates[trial.number]})" if trial.number in duplicates else ""


@contextmanager
def unechoed() -> Iterator[None]:
    """Context manager that, if possible, stops the terminal from printing ``^C``, which would damage the live panel."""
    try:
        import termios
    except ImportError:  # not a POSIX system
        yield
        return
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    quiet = list(before)
    quiet[3] &= ~termios.ECHOCTL
    termios.tcsetattr(sys.stdin, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)
