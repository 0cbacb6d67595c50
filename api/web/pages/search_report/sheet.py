"""The report of a search as a page: its document with drawings."""

from collections.abc import Mapping
from dataclasses import dataclass

from api.web.drawings.forest import Forest, forest
from api.web.drawings.samples import WHOLE, Drawing, drawing
from api.web.pages.search_report.material import Reading
from evo.report import Document

FAR_SLOWER = 3.0
"""Series slower than the first by this factor have a separate drawing, because they would compress the rest."""

BAR_HEIGHT, NAMES, SHARES = 26.0, 190.0, 60.0


@dataclass(frozen=True, kw_only=True)
class ImportanceBar:
    """Importance of a tunable as a bar."""

    name: str
    y: float
    width: float
    share: str


@dataclass(frozen=True, kw_only=True)
class ReportSheet:
    """Content of the template; `samples` and `slower` are drawings of the same rounds on two scales."""

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
    """Return the page's content."""
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
