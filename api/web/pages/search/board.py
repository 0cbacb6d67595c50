"""Computes the texts and numbers that the pages of searches show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy.orm import Session

from api.views import champion_view, listed_views, search_view, trial_views
from api.web.drawings.axis import scale_of
from api.web.drawings.chart import NARROW, SPARK_POINTS, WIDTH, Chart, Confirmed, Spark, best_so_far, spark_of
from api.web.drawings.trade_off import TradeOff, Weighed, front_of, trade_off
from db.models import SearchRow, TrialRow
from db.queries.landscape import Landscape, Points, Trends
from db.queries.numbered_trials import NumberedTrials
from db.repositories.archive import Archive
from db.repositories.champions import Champions, Retired
from evo.messages.view import ChampionView, SearchView, TrialView
from evo.report import Front, FrontRow
from evo.search.lifecycle import TERMINAL
from evo.text.wording import bound_text, outcome_text
from evo.trial.explain import detail_text, headline

FAILURES = 4
WEIGHED = 1_000
"""Maximum number of trials in the drawing, per objective: the trials with the lowest cost by this objective."""
FRONT = 20
"""Maximum number of rows in the table of the Pareto front."""
DRAWN = 500
"""Maximum number of points of the chart. In a longer search, each point is the best of several consecutive trials."""

ROOFLINE_SHOWN = 0.05
"""Minimum ratio of the roofline time to the best time. A lower roofline is not drawn, to keep the chart readable."""

REASONS = {
    "trials": "every trial of its budget has ended",
    "minutes": "its time budget was used up",
    "cost": "its cost budget was used up",
    "exhausted": "every valid config was tried",
    "stagnation": "the last trials were not better than the best trial",
    "outperformed": "other variants were faster after the same number of trials",
    "duplicate": "its binaries equal those of earlier variants",
    "stopped": "it was stopped on request",
    "cancelled": "it was cancelled by a user",
}


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A trial that was not measured, with the reason in one line."""

    number: int
    kind: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Weighing:
    """Plot of a search's trials by two objectives (or by time and metric), and their Pareto front.

    Attributes:
        drawings: one drawing for wide windows and one for phones.
        most: maximum number of trials per objective in the drawings.
    """

    drawings: tuple[TradeOff, ...]
    front: Front
    most: int = WEIGHED


@dataclass(frozen=True, kw_only=True)
class Board:
    """Content of the page of a search, without its leaderboard.

    Attributes:
        spark: sparkline of the best cost so far, for the list of searches. None if no trial has a cost.
        fallen: last champion from this search. None if a champion from this search is current, or if there was none.
        since: how each former champion from this search ended, by trial number: ``rolled back`` or ``retired``.
        charts: chart of the best cost so far for wide windows, and one for phones.
        trade_off: trials by two objectives, or by time and metric. None if time is the only objective.
    """

    search: SearchView
    failures: tuple[Failure, ...] = ()
    charts: tuple[Chart, ...] = ()
    spark: Spark | None = None
    fallen: ChampionView | None = None
    since: Mapping[int, str] = field(default_factory=dict)
    trade_off: Weighing | None = None

    @property
    def live(self) -> bool:
        return self.search.state not in TERMINAL

    @property
    def pending(self) -> int:
        return self.search.asked - self.search.finished

    @property
    def reason(self) -> str | None:
        """Reason why the search ended or is stopping, in words. None while the search runs."""
        return None if self.search.reason is None else REASONS.get(self.search.reason, self.search.reason)

    @property
    def done(self) -> float | None:
        """Used fraction of the budget, or tried fraction of the valid configs if that is larger, 0 to 1.

        None if both are 0.
        """
        return self.search.share_done or None


def boards_of(session: Session, rows: Sequence[SearchRow], now: datetime) -> tuple[Board, ...]:
    """Return the contents of the rows in the list of searches, with sparklines. Unreadable searches are left out."""
    views = listed_views(session, rows, now)
    lows = Trends(session).lows([view.id for view in views], SPARK_POINTS)
    return tuple(Board(search=view, spark=_spark(view, lows[view.id])) for view in views)


def _spark(search: SearchView, lows: Points) -> Spark | None:
    return spark_of(lows, scale_of(search.objective, estimated=search.estimated))


def board_of(session: Session, search_id: int, now: datetime) -> Board:
    """Return the content of a search's page except the leaderboard: charts, figures and latest failures."""
    archive, search = Archive(session), search_view(session, search_id, now)
    failed = trial_views(session, archive.latest_failures(search_id, FAILURES))
    long = search.finished > DRAWN
    progress = Trends(session).lows([search_id], DRAWN)[search_id] if long else archive.progress(search_id)
    confirmed = None if search.best is None else _confirmed(archive.numbered(search_id, search.best.number), long=long)
    retired = Champions(session).retired_of(search_id)
    return Board(
        search=search,
        failures=tuple(map(_failure, failed)),
        charts=_charts(search, progress, confirmed),
        trade_off=_weighing(session, search),
        fallen=_fallen(session, search, retired),
        since={each.trial: "rolled back" if each.rolled_back else "retired" for each in reversed(retired)},
    )


def _confirmed(best: TrialRow, *, long: bool) -> Confirmed | None:
    """Return the point for the best trial in the chart of a search, or None if the trial is not confirmed.

    Args:
        long: True if the horizontal axis of the chart counts proposed trials instead of ended trials.
    """
    if best.quick_us is None or best.cost is None:
        return None
    position = best.number if long or best.finished_seq is None else best.finished_seq
    return Confirmed(number=best.number, position=position, cost=best.cost)


def _charts(
    search: SearchView, progress: Sequence[tuple[int, float]], confirmed: Confirmed | None
) -> tuple[Chart, ...]:
    scale, levels = scale_of(search.objective, estimated=search.estimated), _levels(search)
    drawn = [
        best_so_far(progress, search.finished, levels, confirmed=confirmed, width=width, scale=scale)
        for width in (WIDTH, NARROW)
    ]
    return tuple(chart for chart in drawn if chart is not None)


def _weighing(session: Session, search: SearchView) -> Weighing | None:
    if (axes := search.objective.axes) is None:
        return None
    found = Landscape(session, search.id).weighed(WEIGHED, joint=search.objective.second is not None)
    trials = [Weighed(number=number, first=first, second=second) for number, first, second in found]
    drawn = [trade_off(trials, axes, width=width, estimated=search.estimated) for width in (WIDTH, NARROW)]
    drawings = tuple(each for each in drawn if each is not None)
    if not drawings:
        return None
    best = front_of(trials)
    rows = NumberedTrials(session, search.id).every([each.number for each in best[:FRONT]])
    first, second = (scale_of(axis, estimated=search.estimated).text for axis in axes)
    shown = tuple(
        FrontRow(
            number=each.number,
            figures=(first(each.first), second(each.second)),
            config=rows[each.number].proposal.config,
        )
        for each in best[:FRONT]
    )
    names = (axes[0].called, axes[1].called)
    front = Front(names=names, rows=shown, further=len(best) - len(shown))
    return Weighing(drawings=drawings, front=front)


def _fallen(session: Session, search: SearchView, retired: Sequence[Retired]) -> ChampionView | None:
    own = search.champion is not None and search.champion.search_id == search.id
    return None if own or not retired else champion_view(Champions(session).champion(retired[0].id))


def _failure(trial: TrialView) -> Failure:
    outcome = trial.outcome
    kind, reason = ("", "") if outcome is None else (outcome_text(outcome.kind), headline(detail_text(outcome)))
    return Failure(number=trial.number, kind=kind, reason=reason)


def _levels(search: SearchView) -> dict[tuple[str, str], float]:
    """Return the times of the horizontal lines of a chart, by (kind, label).

    The result is empty in a search with a metric, because baselines and limits are times.
    """
    if search.objective.metric is not None:
        return {}
    levels = {("baseline", name): timing.median_us for name, timing in search.baselines.items()}
    champion, roofline, best = search.champion, search.roofline, search.best
    if champion is not None and champion.search_id != search.id:
        levels["champion", f"champion {champion.id}, confirmed"] = champion.time_us
    if roofline is not None and best is not None and roofline.floor_us >= ROOFLINE_SHOWN * best.time_us:
        levels["roofline", f"{bound_text(roofline.bound)} limit"] = roofline.floor_us
    return levels
