"""Reads the data for the report of a search, and adds drawings to the document for the HTML file."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from api.families import Catalogue
from api.views import ablation_views, trial_view, trial_views
from api.web.drawings.forest import Forest, forest
from api.web.drawings.samples import WHOLE, Drawing, drawing
from api.web.pages.plots.importance import FEWEST, TRIALS, evaluate
from api.web.pages.plots.slices import varied
from api.web.pages.search.board import Board, board_of
from db.queries.landscape import Landscape
from db.repositories.archive import Archive
from evo.messages.view import AblationView, SearchView, TrialView
from evo.report import Document, Example, Found, Material, Spent
from evo.trial.explain import detail_text, headline

TRIALS_COMPARED = 6000
"""Maximum number of trials compared in a report. Half of them are the fastest trials, half are an evenly spaced
sample of the others."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Data for the report of a search, and the content of the search's page, which contains the charts."""

    material: Material
    board: Board


def read(session: Session, catalogue: Catalogue, search_id: int, now: datetime) -> Reading:
    """Return the data for the report of one search.

    Raises:
        NotFound: the search does not exist.
    """
    archive, landscape = Archive(session), Landscape(session, search_id)
    row, board = archive.search(search_id), board_of(session, search_id, now)
    best = archive.best(search_id)
    material = Material(
        search=board.search,
        best=None if best is None else trial_view(session, best.id),
        found=[Found(**vars(each)) for each in landscape.ended(TRIALS_COMPARED)],
        examples={kind: _example(session, search_id, kind) for kind in board.search.counts},
        importances=_importances(landscape),
        spent=[Spent(job=job, count=count, stages=stages) for job, count, stages in landscape.spent()],
        work=catalogue.family(row.family).work(row.problem),
        ablations=_ablations(session, board.search),
        progress=board.charts[0].summary if board.charts else "",
        front=None if board.trade_off is None else board.trade_off.front,
    )
    return Reading(material=material, board=board)


def _ablations(session: Session, search: SearchView) -> list[AblationView]:
    champion = None if search.champion is None else search.champion.id
    return [each for each in ablation_views(session, search.id) if each.champion_id == champion]


def _importances(landscape: Landscape) -> dict[str, float]:
    points = landscape.even(TRIALS)
    return evaluate(points) if len(points) >= FEWEST and len(varied(points)) > 1 else {}


def _example(session: Session, search_id: int, kind: str) -> Example:
    (trial,) = trial_views(session, Archive(session).trials(search_id, outcome=kind, limit=1))
    return Example(number=trial.number, config=trial.config, why=_why(trial))


def _why(trial: TrialView) -> str:
    return "" if trial.outcome is None else headline(detail_text(trial.outcome))


FAR_SLOWER = 3.0
"""Series slower than this multiple of the first series are drawn separately, so that both drawings are readable."""

BAR_HEIGHT, NAMES, SHARES = 26.0, 190.0, 60.0


@dataclass(frozen=True, kw_only=True)
class ImportanceBar:
    """Bar of one tunable's importance."""

    name: str
    y: float
    width: float
    share: str


@dataclass(frozen=True, kw_only=True)
class ReportSheet:
    """Content of the HTML report.

    Attributes:
        samples: drawing of the interleaved series that take at most `FAR_SLOWER` times as long as the first series.
        slower: drawing of the other, slower series.
        bars: bars of the tunables' importances.
        forest: drawing of the ablation.

    A drawing is None, and `bars` is empty, if there is nothing to draw.
    """

    document: Document
    samples: Drawing | None
    slower: Drawing | None
    bars: tuple[ImportanceBar, ...]
    forest: Forest | None = None
    width: float = WHOLE
    names: float = NAMES
    bar_height: float = BAR_HEIGHT

    @property
    def far(self) -> str:
        return f"{FAR_SLOWER:g}"

    @property
    def bars_height(self) -> float:
        return BAR_HEIGHT * len(self.bars)


def report_sheet(document: Document, reading: Reading) -> ReportSheet:
    """Return the content of the HTML report."""
    series = reading.material.samples
    first_us = next((timing.median_us for timing in series.values()), 0.0)
    drawn = {name: timing for name, timing in series.items() if timing.median_us <= FAR_SLOWER * first_us}
    rest = {name: timing for name, timing in series.items() if name not in drawn}
    return ReportSheet(
        document=document,
        samples=drawing(drawn, WHOLE),
        slower=drawing(rest, WHOLE, first=len(drawn)),
        bars=_bars(reading.material.importances),
        forest=forest(reading.material.ablations),
    )


def _bars(importances: Mapping[str, float]) -> tuple[ImportanceBar, ...]:
    longest = max(importances.values(), default=0.0) or 1.0
    room = WHOLE - NAMES - SHARES
    return tuple(
        ImportanceBar(name=name, y=index * BAR_HEIGHT, width=round(room * share / longest, 1), share=f"{share:.0%}")
        for index, (name, share) in enumerate(importances.items())
    )
