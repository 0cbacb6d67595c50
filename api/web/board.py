"""What the pages show of a search, as words and figures, so that the templates only arrange."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from api.views import search_view, search_views, trial_views
from api.web.chart import Chart, best_so_far
from db.archive import Archive
from evo.explain import detail_text, first_lines
from evo.lifecycle import TERMINAL
from evo.timing import Timing
from evo.trial import Config
from evo.view import SearchView, TrialView
from evo.wording import outcome_text, value_text

RANKED = 25
FAILURES = 4
LISTED_SEARCHES = 100

ROOFLINE_SHOWN = 0.05
"""A limit further away than this share of the best time would squeeze everything else into a corner of the chart."""

REASONS = {
    "trials": "every trial of its budget has ended",
    "minutes": "its time was over",
    "cost": "its money was spent",
    "exhausted": "every valid config was tried",
    "stagnation": "nothing better came for long enough",
    "stopped": "it was stopped by hand",
    "cancelled": "it was cancelled by hand",
}


@dataclass(frozen=True, kw_only=True)
class Chip:
    """One setting of a config; `differs` from the best trial's."""

    name: str
    value: str
    differs: bool


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A time among the others.

    Attributes:
        behind: how much more time than the best, as a fraction.
        speedup: over the fastest baseline.
        share: of the roofline.
    """

    behind: float | None
    speedup: float | None
    share: float | None

    @classmethod
    def of(cls, search: SearchView, time_us: float) -> "Standing":
        baseline = search.baselines.get(search.fastest_baseline or "")
        return cls(
            behind=None if search.best is None else time_us / search.best.time_us - 1.0,
            speedup=None if baseline is None else baseline.median_us / time_us,
            share=None if search.roofline is None else search.roofline.floor_us / time_us,
        )


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the ranking: a trial, or a baseline (whose `trial` is None) where it would stand."""

    rank: int | None
    name: str
    timing_us: float
    spread_us: float | None
    standing: Standing
    chips: tuple[Chip, ...] = ()
    trial: TrialView | None = None


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A trial that could not be measured, and why in one line."""

    number: int
    kind: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Board:
    """One search as its page shows it.

    Attributes:
        shared: settings that every ranked trial has in common, so the rows need not repeat them.
    """

    search: SearchView
    rows: tuple[Row, ...]
    shared: tuple[Chip, ...]
    failures: tuple[Failure, ...]
    chart: Chart | None

    @property
    def live(self) -> bool:
        return self.search.state not in TERMINAL

    @property
    def pending(self) -> int:
        return self.search.asked - self.search.finished

    @property
    def reason(self) -> str | None:
        """Why it ended or stops, in words."""
        return None if self.search.reason is None else REASONS.get(self.search.reason, self.search.reason)

    @property
    def done(self) -> float | None:
        """How much of the budget is used, 0 to 1; None without a budget."""
        budget, search = self.search.budget, self.search
        parts = [
            search.elapsed_s / (60 * budget.minutes) if budget.minutes else None,
            search.finished / budget.trials if budget.trials else None,
            search.finished / search.space.valid_count if search.space.valid_count else None,
        ]
        return min(1.0, max((part for part in parts if part is not None), default=0.0)) or None


def list_searches(session: Session, now: datetime) -> tuple[Board, ...]:
    """The latest searches, without their trials."""
    views = search_views(session, Archive(session).searches(limit=LISTED_SEARCHES), now)
    return tuple(Board(search=view, rows=(), shared=(), failures=(), chart=None) for view in views)


def board_of(session: Session, search_id: int, now: datetime) -> Board:
    """One search with its ranking, its chart and its latest failures."""
    archive, search = Archive(session), search_view(session, search_id, now)
    ranked = trial_views(session, archive.ranking(search_id, outcome="measured", limit=RANKED))
    failed = trial_views(session, archive.latest_failures(search_id, FAILURES))
    chart = best_so_far(archive.progress(search_id), search.finished, _levels(search))
    shared = _shared([trial.config for trial in ranked])
    return Board(
        search=search,
        rows=_rows(search, ranked, shared),
        shared=tuple(Chip(name=name, value=value_text(value), differs=False) for name, value in shared.items()),
        failures=tuple(map(_failure, failed)),
        chart=chart,
    )


def _shared(configs: Sequence[Config]) -> Config:
    """What all of several configs have in common."""
    if len(configs) < 2:
        return {}
    first, *others = configs
    return {name: value for name, value in first.items() if all(other[name] == value for other in others)}


def _rows(search: SearchView, ranked: Sequence[TrialView], shared: Config) -> tuple[Row, ...]:
    best = ranked[0].config if ranked else {}
    rows = [_trial_row(search, trial, _chips(trial.config, best, shared), rank) for rank, trial in enumerate(ranked, 1)]
    slowest = rows[-1].timing_us if len(rows) == RANKED else float("inf")
    baselines = [_baseline_row(search, name, timing) for name, timing in search.baselines.items()]
    shown = [row for row in baselines if row.timing_us <= slowest]
    return tuple(sorted([*rows, *shown], key=lambda row: row.timing_us))


def _chips(config: Config, best: Config, shared: Config) -> tuple[Chip, ...]:
    return tuple(
        Chip(name=name, value=value_text(value), differs=best[name] != value)
        for name, value in config.items()
        if name not in shared
    )


def _trial_row(search: SearchView, trial: TrialView, chips: tuple[Chip, ...], rank: int) -> Row:
    time_us = trial.time_us or 0.0
    timing = getattr(trial.outcome, "timing", None)
    return Row(
        rank=rank,
        name=f"trial {trial.number}",
        timing_us=time_us,
        spread_us=timing.iqr_us if isinstance(timing, Timing) else None,
        chips=chips,
        trial=trial,
        standing=Standing.of(search, time_us),
    )


def _baseline_row(search: SearchView, name: str, timing: Timing) -> Row:
    time_us = timing.median_us
    standing = Standing.of(search, time_us)
    return Row(rank=None, name=name, timing_us=time_us, spread_us=timing.iqr_us, standing=standing)


def _failure(trial: TrialView) -> Failure:
    outcome = trial.outcome
    kind, reason = ("", "") if outcome is None else (outcome_text(outcome.kind), first_lines(detail_text(outcome), 1))
    return Failure(number=trial.number, kind=kind, reason=reason.partition("\n")[0])


def _levels(search: SearchView) -> dict[tuple[str, str], float]:
    levels = {("baseline", name): timing.median_us for name, timing in search.baselines.items()}
    champion, roofline, best = search.champion, search.roofline, search.best
    if champion is not None and champion.search_id != search.id:
        levels["champion", f"champion {champion.id}"] = champion.time_us
    if roofline is not None and best is not None and roofline.floor_us >= ROOFLINE_SHOWN * best.time_us:
        levels["roofline", f"{roofline.bound} limit"] = roofline.floor_us
    return levels
