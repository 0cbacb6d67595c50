"""Builds the content of a champion's page, with promotion rules, interleaved samples, and the champion's history."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from fastapi import Request
from sqlalchemy.orm import Session

from api.views import champion_view, search_view
from api.web.content.artefact_list import ArtefactReader, TrialFiles
from api.web.drawings.axis import Axis
from api.web.drawings.samples import BOTTOM, RIGHT, TOP, WHOLE, Drawing, IntervalLine, Rows, drawing
from api.web.rendering import render
from db.repositories.archive import Archive
from db.repositories.artefacts import Artefacts
from db.repositories.champions import Champions
from evo.errors import Conflict, InvalidInput
from evo.export.bundle import Bundle, refuse_unexportable
from evo.export.called import called_text
from evo.export.headers import NAME as HEADERS
from evo.export.headers import unpack_headers
from evo.family import Family
from evo.messages.view import ChampionView, SearchView
from evo.promotion.prediction import times_as_fast
from evo.promotion.statistics import Interval
from evo.text.wording import time_text
from evo.trial.timing import Timing

FAR_SLOWER = 3.0
"""Baselines slower than this multiple of the champion's time are drawn separately, so that both drawings are readable.
"""

ROW, NAMES = 34.0, 150.0
HISTORY = 50


@dataclass(frozen=True, kw_only=True)
class Spans(Rows):
    """Confidence intervals, one below the other, on a common scale."""

    spans: tuple[IntervalLine, ...]


@dataclass(frozen=True, kw_only=True)
class EvidenceSheet:
    """Content of a champion's page.

    Attributes:
        samples: timings by series: the champion, the champion again (a second series in the same rounds, which shows
            the noise), the previous champion and the baselines. Sample i was taken in round i.
        drawing: drawing of the series that take at most `FAR_SLOWER` times as long as the champion. None if there are
            none.
        slower: drawing of the other, slower series. None if there are none.
        spans: confidence intervals of the champion and the previous champion. None if the champion's verdict has none.
        history: champions with the same key, newest first, including this champion.
        not_exportable: reason why the champion cannot be exported. None if it can be exported.
    """

    champion: ChampionView
    search: SearchView
    samples: Mapping[str, Timing]
    drawing: Drawing | None
    slower: Drawing | None
    spans: Spans | None
    history: tuple[ChampionView, ...]
    artefacts: TrialFiles
    not_exportable: str | None

    @property
    def far(self) -> str:
        return f"{FAR_SLOWER:g}"

    @property
    def called(self) -> str | None:
        """Times of calls from PyTorch to the champion's exported kernel and to PyTorch's own function, as text.

        If these times were not measured, the text states how to measure them. None if they cannot be measured, because
        the champion cannot be part of an exported package.
        """
        return called_text(self.champion, self.search.device.kind)

    def as_fast(self, name: str) -> float | None:
        """Return the champion's speed-up over another series: the median of the ratios of all rounds.

        Return None if the two series differ in length.
        """
        own, other = self.samples["champion"], self.samples[name]
        alike = len(own.samples_us) == len(other.samples_us)
        return times_as_fast(own, other) if alike else None


def evidence_sheet(session: Session, store: Artefacts, champion_id: int, now: datetime) -> EvidenceSheet:
    """Return the content of a champion's page.

    Raises:
        NotFound: the champion does not exist.
    """
    row = Champions(session).champion(champion_id)
    champion = champion_view(row)
    search = search_view(session, champion.search_id, now)
    samples = samples_of(champion)
    drawn = {name: timing for name, timing in samples.items() if timing.median_us <= FAR_SLOWER * champion.time_us}
    history = Champions(session).history(row, HISTORY)
    return EvidenceSheet(
        champion=champion,
        search=search,
        samples=samples,
        drawing=drawing(drawn, WHOLE),
        slower=drawing({name: samples[name] for name in samples if name not in drawn}, WHOLE, first=len(drawn)),
        spans=_spans(champion),
        history=tuple(map(champion_view, history)),
        artefacts=ArtefactReader(session, store).of(champion.artefacts, search.device.kind),
        not_exportable=_refusal(champion, search),
    )


def samples_of(champion: ChampionView) -> dict[str, Timing]:
    """Return the timings of a champion's confirmation by name: champion, champion again, previous champion, baselines.

    The result is empty if there is no report.
    """
    report = champion.report
    if report is None:
        return {}
    named = {
        "champion": report.challenger,
        "champion again": report.challenger_again,
        "previous champion": report.incumbent,
        **report.baselines,
    }
    return {name: timing for name, timing in named.items() if timing is not None}


def bundle_of(session: Session, store: Artefacts, champion_id: int, now: datetime) -> Bundle:
    """Return the files of a champion's export.

    Raises:
        NotFound: the champion does not exist, or its files were deleted from the store.
        Conflict: this kind of champion cannot run outside kernel-evo, or the champion's files were never stored.
    """
    champion = champion_view(Champions(session).champion(champion_id))
    search = search_view(session, champion.search_id, now)
    if (refusal := _refusal(champion, search)) is not None:
        raise Conflict(refusal)
    row = Archive(session).search(champion.search_id)
    (_, source), (_, library) = (store.get(session, champion.artefacts[name]) for name in ("source", "binary"))
    ptx = store.get(session, champion.artefacts["ptx"])[1] if "ptx" in champion.artefacts else None
    packed = store.get(session, champion.artefacts[HEADERS])[1] if HEADERS in champion.artefacts else None
    return Bundle(
        champion=champion,
        search=search,
        family=Family.from_document(row.family.document),
        source=source,
        library=library,
        ptx=ptx,
        headers={} if packed is None else unpack_headers(packed),
    )


def _refusal(champion: ChampionView, search: SearchView) -> str | None:
    try:
        refuse_unexportable(champion, search)
    except InvalidInput as error:
        return error.reason
    missing = [name for name in ("source", "binary") if name not in champion.artefacts]
    return f"champion {champion.id} has no stored {missing[0]}" if missing else None


def _spans(champion: ChampionView) -> Spans | None:
    verdict = champion.verdict
    if verdict is None or verdict.challenger is None:
        return None
    named: dict[str, Interval] = {"champion": verdict.challenger}
    if verdict.incumbent is not None:
        named["previous champion"] = verdict.incumbent
    low, high = min(each.low for each in named.values()), max(each.high for each in named.values())
    room = 0.1 * (high - low) or 0.01 * high
    axis = Axis(low=low - room, high=high + room, start=NAMES, end=WHOLE - RIGHT - 20)
    return Spans(
        spans=tuple(_span(index, name, interval, axis) for index, (name, interval) in enumerate(named.items())),
        marks=axis.marks(7, time_text),
        summary=". ".join(f"{name}: {_between(interval)}" for name, interval in named.items()) + ".",
        height=TOP + ROW * len(named) + BOTTOM,
    )


def _span(index: int, name: str, interval: Interval, axis: Axis) -> IntervalLine:
    return IntervalLine(
        name=name,
        place=index if name == "champion" else 2,
        y=TOP + ROW * (index + 0.5),
        low_x=axis.at(interval.low),
        x=axis.at(interval.estimate),
        high_x=axis.at(interval.high),
        text=_between(interval),
    )


def _between(interval: Interval) -> str:
    return f"{time_text(interval.estimate)} ({time_text(interval.low)} to {time_text(interval.high)})"


def champion_report(request: Request, sheet: EvidenceSheet) -> bytes:
    """Return the evidence as one self-contained HTML file."""
    champion, search = sheet.champion, sheet.search
    page = render(
        request, "evidence/report.html", sheet=sheet, champion=champion, search=search, verdict=champion.verdict
    )
    return bytes(page.body)
