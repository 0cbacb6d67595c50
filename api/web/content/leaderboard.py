"""Leaderboard pages: the trials of one search, or of all searches that compete for the same champion."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from api.rest.selection import selection_of
from api.views import challenge_views, trial_views
from api.web.address import ORDERS, Address
from db.queries.leaderboard import Leaderboard, Measurer
from db.queries.selection import KEYS, Selection
from evo.errors import InvalidInput
from evo.messages.view import SearchView, TrialView
from evo.messages.view.runs import Runs
from evo.promotion.leading import Confirmation, leading_speedup
from evo.promotion.statistics import CONFIDENCE, Interval, order_interval
from evo.space import Tunable
from evo.text.wording import significant, value_text
from evo.trial import Config
from evo.trial.explain import detail_text, headline
from evo.trial.outcome import Estimated, Measured
from evo.trial.timing import Timing

PAGE = 50
COUNTED = 10_000
"""Maximum number of matching trials that are counted, because counting is slow."""


@dataclass(frozen=True, kw_only=True)
class Chip:
    """A tunable's value in a cell of the leaderboard. `differs` is True if the best trial has a different value."""

    name: str
    value: str
    differs: bool = False


@dataclass(frozen=True, kw_only=True)
class RelativeTime:
    """A time relative to the fastest baseline and to the roofline.

    Attributes:
        speedup: speed-up over the fastest baseline. It is the confirmed speed-up if the time is confirmed. None without
            a time or a baseline, and if a confirmation found that the kernel is, or may be, invalid.
        share: roofline time divided by the time. Above 1 if the roofline is wrong. None if one of the times is unknown.
    """

    speedup: float | None
    share: float | None

    @classmethod
    def of(cls, search: SearchView, time_us: float | None, confirmation: Confirmation | None = None) -> "RelativeTime":
        speedup = leading_speedup(time_us, confirmation, search.baselines)
        return cls(
            speedup=None if speedup is None else speedup.value,
            share=None if search.roofline is None else search.roofline.share(time_us),
        )


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a leaderboard: a trial or a baseline. For a baseline, `trial`, `rank` and `measurer` are None.

    Attributes:
        rank: rank among all trials that have a cost. None if the trial has no cost.
        time_us, interval: time with its confidence interval. None if unknown.
        measurer: worker and device that evaluated the trial. None if no result was reported.
        source: text that states the source of the time. If the table contains times of several runs, the text also
            states the run. Empty for estimates.
        metric: value of the search's metric as text. Empty if the search minimises the time.
        same: number of the first trial of the search with the same binary. None if no earlier trial has the same
            binary.
        figures: texts with registers, shared memory and occupancy, as far as known.
        detail: reason why the trial was not measured, as one line of text.
    """

    name: str
    rank: int | None = None
    time_us: float | None = None
    source: str = ""
    metric: str = ""
    interval: Interval | None = None
    relative: RelativeTime
    chips: tuple[Chip, ...] = ()
    figures: tuple[str, ...] = ()
    detail: str = ""
    trial: TrialView | None = None
    measurer: Measurer | None = None
    same: int | None = None


@dataclass(frozen=True, kw_only=True)
class Listing:
    """One page of a leaderboard.

    Attributes:
        device: model of the device that measured all rows.
        metric: metric of the search. None if the objective is the time.
        found: number of trials that match the filters. Counting stops at `COUNTED` unless `exact` is True.
        shared: settings that are equal in all rows. They are shown once instead of in every row.
        note: sentences to show if the table contains times of several runs, else None.
        wrong: reasons why filters in the URL are invalid, by field. If a filter is invalid, there are no rows.
    """

    address: Address
    tunables: tuple[Tunable, ...]
    device: str
    metric: str | None = None
    rows: tuple[Row, ...] = ()
    shared: tuple[Chip, ...] = ()
    found: int = 0
    exact: bool = False
    note: str | None = None
    wrong: Mapping[str, str]

    @property
    def orders(self) -> Mapping[str, str]:
        """Labels of all sort keys, by sort key."""
        names = [tunable.name for tunable in self.tunables if tunable.name not in KEYS]
        up, down = {name: f"{name}, up" for name in names}, {f"-{name}": f"{name}, down" for name in names}
        return {**ORDERS, **up, **down}

    @property
    def estimated(self) -> bool:
        """True if the times are estimates."""
        return any(row.trial is not None and isinstance(row.trial.outcome, Estimated) for row in self.rows)

    @property
    def compared(self) -> bool:
        """True if a row has a speed-up over a baseline."""
        return any(row.relative.speedup for row in self.rows)

    @property
    def bounded(self) -> bool:
        """True if the time of a row can be compared with the roofline."""
        return any(row.relative.share for row in self.rows)

    @property
    def resourced(self) -> bool:
        """True if the resource use of a row is known."""
        return any(row.figures for row in self.rows)

    @property
    def first(self) -> int:
        """Position of the first row in the whole list, from 1."""
        return (self.address.page - 1) * PAGE + 1

    @property
    def last(self) -> int:
        return self.first + sum(row.trial is not None for row in self.rows) - 1

    @property
    def more(self) -> bool:
        """True if another page follows."""
        return self.last < self.found or (self.count_is_limited and self.last - self.first + 1 == PAGE)

    @property
    def count_is_limited(self) -> bool:
        """True if counting stopped at the limit, so more trials may match."""
        return not self.exact and self.found >= COUNTED


def listing_of(
    session: Session,
    address: Address,
    tunables: tuple[Tunable, ...],
    *,
    search: SearchView,
    searches: Sequence[int] | None = None,
) -> Listing:
    """Return the leaderboard page for a URL.

    Args:
        search: search whose baselines and roofline are compared with the times.
        searches: ids of the searches whose trials are listed. If None, only the trials of `search` are listed.
    """
    ids = tuple(searches or (search.id,))
    try:
        selection = selection_of(
            ids, tunables, sort=address.sort, outcomes=address.outcomes, where=address.where, text=address.q
        )
    except InvalidInput as error:
        model = search.device.model
        return Listing(address=address, tunables=tunables, device=model, wrong={error.field: error.reason})
    board, offset = Leaderboard(session), (address.page - 1) * PAGE
    found, counted = board.look(selection, offset=offset, limit=PAGE, most=COUNTED)
    known = None if searches else _known_count(search, selection)
    trials = trial_views(session, found)
    places = {row.id: offset + index for index, row in enumerate(found, 1) if row.cost is not None}
    ranks = places if selection.plain else board.ranks(ids, list(places)) if places else {}
    measurers = board.measurers([row.id for row in found])
    shared = _shared([trial.config for trial in trials])
    duplicates = board.duplicates([row.id for row in found])
    runs = _runs(session, trials, search)
    rows = [
        replace(
            _row(search, trial, shared),
            rank=ranks.get(trial.id),
            measurer=measurers.get(trial.id),
            same=duplicates.get(trial.id),
            source="" if isinstance(trial.outcome, Estimated) else runs.source(trial),
        )
        for trial in trials
    ]
    if selection.plain and search.objective.metric is None:
        rows = _among_baselines(search, rows, whole=len(rows) < PAGE, first=offset == 0)
    return Listing(
        address=address,
        tunables=tunables,
        device=search.device.model,
        metric=search.objective.metric,
        rows=tuple(rows),
        shared=tuple(Chip(name=name, value=value_text(value)) for name, value in shared.items()),
        found=counted if known is None else known,
        exact=known is not None,
        note=runs.note,
        wrong={},
    )


def _runs(session: Session, trials: Sequence[TrialView], search: SearchView) -> Runs:
    """Return the runs that measured the times: confirmations, and the quick samples of each search.

    The trials may belong to several searches.
    """
    confirmed = {trial.search_id for trial in trials if trial.confirmed is not None}
    challenges = {
        each: search.challenges if each == search.id else challenge_views(session, each) for each in confirmed
    }
    return Runs.of(trials, challenges)


def _known_count(search: SearchView, selection: Selection) -> int | None:
    """Return the number of matching trials from the counts in the search view, or None if a query is needed."""
    if selection.conditions or selection.text:
        return None
    counts = {**search.counts, "pending": search.asked - search.finished}
    return sum(counts.get(kind, 0) for kind in selection.outcomes or counts)


def _shared(configs: Sequence[Config]) -> Config:
    if len(configs) < 2:
        return {}
    first, *others = configs
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}


def _row(search: SearchView, trial: TrialView, shared: Config) -> Row:
    outcome = trial.outcome
    timing = getattr(outcome, "timing", None)
    best = search.best.config if search.best else {}
    chips = (
        Chip(name=name, value=value_text(value), differs=name in best and best[name] != value)
        for name, value in trial.config.items()
        if name not in shared
    )
    return Row(
        name=f"trial {trial.number}",
        time_us=trial.time_us,
        metric="" if search.objective.metric is None else search.objective.metric_text(trial.cost),
        interval=_interval(trial, timing),
        relative=RelativeTime.of(search, trial.time_us, trial.confirmed),
        chips=tuple(chips),
        figures=_figures(outcome.resources) if isinstance(outcome, Measured | Estimated) else (),
        detail="" if outcome is None or isinstance(outcome, Measured) else headline(detail_text(outcome)),
        trial=trial,
    )


def _interval(trial: TrialView, timing: object) -> Interval | None:
    if trial.confirmed is not None and trial.confirmed.time is not None:
        return trial.confirmed.time
    return order_interval(timing.samples_us, CONFIDENCE) if isinstance(timing, Timing) else None


def _figures(resources: Mapping[str, float]) -> tuple[str, ...]:
    """Return up to two lines of text: the resources per thread and block, and the occupancy."""
    registers, shared = resources.get("registers"), resources.get("shared_memory_bytes")
    occupancy, spills = resources.get("occupancy"), resources.get("spill_bytes")
    used = [
        "" if registers is None else f"{registers:.0f} registers",
        "" if shared is None else f"{significant(shared / 1024)} KiB",
    ]
    full = ["" if occupancy is None else f"{occupancy:.0%} occupancy", f"{spills:.0f} B spilled" if spills else ""]
    return tuple(line for line in (", ".join(filter(None, used)), ", ".join(filter(None, full))) if line)


def _among_baselines(search: SearchView, rows: Sequence[Row], *, whole: bool, first: bool) -> list[Row]:
    """Return the rows of a page, with the baselines inserted by time among the trials with quick times.

    Args:
        whole: True if the page has fewer than `PAGE` trials, and is therefore the last. It then also contains all
            baselines that are slower than its trials.
        first: True for the first page, which also contains all baselines that are faster than its trials.
    """
    quick = [row for row in rows if row.trial is not None and row.trial.source in ("quick", "estimated")]
    if not quick and not whole:
        return list(rows)
    confirmed = [row for row in rows if row.trial is not None and row.trial.source == "confirmed"]
    others = [row for row in rows if row not in quick and row not in confirmed]
    begins = first or bool(confirmed)
    fastest = 0.0 if begins or not quick else quick[0].time_us or 0.0
    slowest = float("inf") if whole else quick[-1].time_us or 0.0
    baselines = [_baseline_row(search, name, timing) for name, timing in search.baselines.items()]
    shown = [row for row in baselines if fastest < (row.time_us or 0.0) <= slowest] if rows else []
    return confirmed + sorted([*quick, *shown], key=lambda row: row.time_us or 0.0) + others


def _baseline_row(search: SearchView, name: str, timing: Timing) -> Row:
    time_us = timing.median_us
    interval = order_interval(timing.samples_us, CONFIDENCE)
    return Row(name=name, time_us=time_us, source="quick", interval=interval, relative=RelativeTime.of(search, time_us))
