"""Comparison of two trials: settings, rendered source, measurements."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from sqlalchemy.orm import Session

from api.views import search_view, trial_view
from api.web.content.artefact_list import ArtefactReader, File, TrialFiles
from api.web.content.difference import Difference, difference
from api.web.content.listing import beginning
from api.web.drawings.samples import WHOLE, Drawing, drawing
from api.web.pages.trial.sheet import Setting, settings_of, source_difference, timings_of
from api.web.trial_reference import TrialReference
from db.repositories.artefacts import Artefacts
from evo.messages.view import SearchView, TrialView
from evo.report.comparison import Comparison, compare
from evo.trial.outcome import Estimated, Measured
from evo.trial.timing import Timing


@dataclass(frozen=True, kw_only=True)
class Half:
    """One of the two trials."""

    trial: TrialView
    search: SearchView
    artefacts: TrialFiles

    @property
    def place(self) -> TrialReference:
        return TrialReference.of(self.trial)

    @property
    def name(self) -> str:
        return f"trial {self.trial.number} of search {self.search.id}"

    @property
    def timing(self) -> Timing | None:
        return next(iter(timings_of(self.trial.outcome, self.search.objective).values()), None)

    @property
    def resources(self) -> dict[str, float]:
        outcome = self.trial.outcome
        return dict(outcome.resources) if isinstance(outcome, Measured | Estimated) else {}


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Content of the comparison page.

    Attributes:
        caveats: reasons why the figures may not be comparable, in sentences.
        comparison: None if one trial has no timing, or too few samples.
        profiles: profile reports by name, with the differences from left to right where both have one.
    """

    left: Half
    right: Half
    settings: tuple[Setting, ...]
    resources: tuple[Setting, ...]
    source: Difference | None
    drawing: Drawing | None
    comparison: Comparison | None
    profiles: tuple[tuple[str, Difference], ...]
    caveats: tuple[str, ...]


def compared(session: Session, store: Artefacts, trials: Sequence[int], now: datetime) -> Compared:
    """Compare two trials of one search or of two.

    Args:
        trials: ids of the left and the right trial.

    Raises:
        NotFound: there is no such trial.
    """
    left, right = (_half(session, store, trial_id, now) for trial_id in trials)
    timings = {half.name: half.timing for half in (left, right)}
    known = {name: timing for name, timing in timings.items() if timing is not None}
    return Compared(
        left=left,
        right=right,
        settings=settings_of(left.trial.config, right.trial.config),
        resources=settings_of(left.resources, right.resources),
        source=source_difference(left.artefacts, right.artefacts),
        drawing=drawing(known, WHOLE),
        comparison=_comparison(left, right),
        profiles=tuple(_profiles(left.artefacts, right.artefacts)),
        caveats=tuple(_caveats(left, right)),
    )


def _half(session: Session, store: Artefacts, trial_id: int, now: datetime) -> Half:
    trial = trial_view(session, trial_id)
    search = search_view(session, trial.search_id, now)
    artefacts = ArtefactReader(session, store).of_trial(trial, search.device.kind)
    return Half(trial=trial, search=search, artefacts=artefacts)


def _comparison(left: Half, right: Half) -> Comparison | None:
    """Compare the timings with a seed derived from the trials, so that the page is reproducible."""
    if left.timing is None or right.timing is None or left.trial.id == right.trial.id:
        return None
    rng = np.random.default_rng((left.trial.id, right.trial.id))
    return compare(left.timing, right.timing, left.search.policy, rng)


def _profiles(left: TrialFiles, right: TrialFiles) -> list[tuple[str, Difference]]:
    theirs = {file.name: file for file in right.about("profile", "ncu")}
    pairs = [(file, theirs[file.name]) for file in left.about("profile", "ncu") if file.name in theirs]
    return [(one.name, difference(_lines(one), _lines(other))) for one, other in pairs]


def _lines(file: File) -> list[str]:
    return beginning((file.text or "").splitlines())


def _caveats(left: Half, right: Half) -> list[str]:
    one, other = left.search, right.search
    different = {
        "families": one.family != other.family,
        "problems": one.problem_key != other.problem_key,
        "devices": one.device.model != other.device.model,
        "objectives": one.objective != other.objective,
    }
    return [
        f"They are of different {name}: their times are not comparable." for name, differ in different.items() if differ
    ]
