"""Creates the plots of a search by name, and caches the latest plots."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeAlias

from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from api.views import search_view
from api.web.pages.plots.best import best_so_far
from api.web.pages.plots.figure import Plot
from api.web.pages.plots.importance import importances
from api.web.pages.plots.lineage import lineage
from api.web.pages.plots.outcomes import outcomes_over_time
from api.web.pages.plots.parallel import Parallel, parallel_coordinates
from api.web.pages.plots.resources import resources_against_time
from api.web.pages.plots.slices import contour, slices
from api.web.pages.plots.timeline import timeline
from db.queries.landscape import Landscape
from db.repositories.archive import Archive
from evo.errors import NotFound
from evo.messages.view import SearchView
from evo.text.suggestion import unknown

REMEMBERED = 64
ESTIMATES = "Estimates: these trials were never run."
JSON: TypeAdapter[Plot | Parallel] = TypeAdapter(Plot | Parallel)

Key: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class PlotRequest:
    """Input of the function that draws a plot.

    Attributes:
        pair: the two tunables of a contour plot. A tunable that is None is chosen automatically.
    """

    landscape: Landscape
    search: SearchView
    pair: tuple[str | None, str | None]


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    """Title of a plot, and the function that draws it."""

    title: str
    draw: Callable[[PlotRequest], Plot | Parallel]


EXHIBITS: Mapping[str, Exhibit] = {
    "best": Exhibit(title="Best so far", draw=lambda request: best_so_far(request.landscape, request.search)),
    "parallel": Exhibit(title="Parallel coordinates", draw=lambda request: parallel_coordinates(request.landscape)),
    "importances": Exhibit(
        title="Importances", draw=lambda request: importances(request.landscape, estimated=request.search.estimated)
    ),
    "outcomes": Exhibit(
        title="Outcomes over time", draw=lambda request: outcomes_over_time(request.landscape, request.search)
    ),
    "slices": Exhibit(title="Slices", draw=lambda request: slices(request.landscape)),
    "contour": Exhibit(title="Contour", draw=lambda request: contour(request.landscape, *request.pair)),
    "resources": Exhibit(
        title="Resources against time", draw=lambda request: resources_against_time(request.landscape)
    ),
    "lineage": Exhibit(
        title="Lineage of the champion", draw=lambda request: lineage(request.landscape, request.search)
    ),
    "timeline": Exhibit(title="Device timeline", draw=lambda request: timeline(request.landscape)),
}


class Gallery:
    """Draws plots and caches the latest plots until their search changes. Thread-safe."""

    def __init__(self) -> None:
        self._drawn: OrderedDict[Key, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def figures(self, session: Session, search_id: int, name: str, now: datetime) -> Plot | Parallel:
        """Return the data of a plot.

        Raises:
            NotFound: the search or the plot does not exist.
        """
        return JSON.validate_json(self.drawn(session, search_id, name, now, (None, None)))

    def drawn(
        self, session: Session, search_id: int, name: str, now: datetime, pair: tuple[str | None, str | None]
    ) -> bytes:
        """Return a plot as JSON.

        Args:
            pair: the two tunables of a contour plot. A tunable that is None is chosen automatically.

        Raises:
            NotFound: the search or the plot does not exist.
            InvalidInput: `pair` contains the name of a tunable that is unknown or has only one value.
        """
        if name not in EXHIBITS:
            raise NotFound(unknown(name, EXHIBITS, "plots"))
        archive = Archive(session)
        row = archive.search(search_id)
        counts = archive.counts([search_id])[search_id]
        key = (search_id, name, pair, row.state, tuple(sorted(counts.items(), key=str)))
        with self._lock:
            if key in self._drawn:
                self._drawn.move_to_end(key)
                return self._drawn[key]
        search = search_view(session, search_id, now)
        request = PlotRequest(landscape=Landscape(session, search_id), search=search, pair=pair)
        made = JSON.dump_json(_captioned(EXHIBITS[name].draw(request), search))
        with self._lock:
            self._drawn[key] = made
            while len(self._drawn) > REMEMBERED:
                self._drawn.popitem(last=False)
        return made


def _captioned(plot: Plot | Parallel, search: SearchView) -> Plot | Parallel:
    return replace(plot, summary=f"{ESTIMATES} {plot.summary}") if search.estimated else plot
