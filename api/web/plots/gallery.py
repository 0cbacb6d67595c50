"""All plots of a search by name, and the latest drawings of each."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from api.views import search_view
from api.web.plots.best import best_so_far
from api.web.plots.figure import Plot
from api.web.plots.importance import importances
from api.web.plots.lineage import lineage
from api.web.plots.outcomes import outcomes_over_time
from api.web.plots.parallel import Parallel, parallel_coordinates
from api.web.plots.resources import resources_against_time
from api.web.plots.slices import contour, slices
from api.web.plots.timeline import timeline
from db.archive import Archive
from db.landscape import Landscape
from evo.errors import NotFound
from evo.suggestion import unknown
from evo.view import SearchView

REMEMBERED = 64
JSON: TypeAdapter[Plot | Parallel] = TypeAdapter(Plot | Parallel)

Key: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    """One plot of the gallery.

    Args:
        draw: makes it, of the search's trials and its view.
    """

    title: str
    draw: Callable[[Landscape, SearchView], Plot | Parallel]


EXHIBITS: Mapping[str, Exhibit] = {
    "best": Exhibit(title="Best so far", draw=best_so_far),
    "parallel": Exhibit(title="Parallel coordinates", draw=lambda landscape, _: parallel_coordinates(landscape)),
    "importances": Exhibit(title="Importances", draw=lambda landscape, _: importances(landscape)),
    "outcomes": Exhibit(title="Outcomes over time", draw=outcomes_over_time),
    "slices": Exhibit(title="Slices", draw=lambda landscape, _: slices(landscape)),
    "contour": Exhibit(title="Contour", draw=lambda landscape, _: contour(landscape, None, None)),
    "resources": Exhibit(title="Resources against time", draw=lambda landscape, _: resources_against_time(landscape)),
    "lineage": Exhibit(title="Lineage of the champion", draw=lineage),
    "timeline": Exhibit(title="Device timeline", draw=lambda landscape, _: timeline(landscape)),
}


class Gallery:
    """Draws plots and remembers the latest ones: a search that has not moved is not drawn again. Thread-safe."""

    def __init__(self) -> None:
        self._drawn: OrderedDict[Key, bytes] = OrderedDict()
        self._turn = threading.Lock()

    def drawn(
        self, session: Session, search_id: int, name: str, now: datetime, pair: tuple[str | None, str | None]
    ) -> bytes:
        """A plot as JSON.

        Args:
            pair: the two tunables of a contour; None chooses.

        Raises:
            NotFound: there is no such search or plot.
            InvalidInput: a contour of what is no tunable.
        """
        if name not in EXHIBITS:
            raise NotFound(unknown(name, EXHIBITS, "plots"))
        archive = Archive(session)
        row = archive.search(search_id)
        counts = archive.counts([search_id])[search_id]
        key = (search_id, name, pair, row.state, tuple(sorted(counts.items(), key=str)))
        with self._turn:
            if key in self._drawn:
                self._drawn.move_to_end(key)
                return self._drawn[key]
        made = JSON.dump_json(self._plot(session, search_id, name, now, pair))
        with self._turn:
            self._drawn[key] = made
            while len(self._drawn) > REMEMBERED:
                self._drawn.popitem(last=False)
        return made

    @staticmethod
    def _plot(
        session: Session, search_id: int, name: str, now: datetime, pair: tuple[str | None, str | None]
    ) -> Plot | Parallel:
        landscape = Landscape(session, search_id)
        if name == "contour":
            return contour(landscape, *pair)
        return EXHIBITS[name].draw(landscape, search_view(session, search_id, now))
