"""Page that compares the settings, source code and measurements of two trials."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, TypeAlias
from urllib.parse import urlencode

import numpy as np
from fastapi import Query, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy.orm import Session

from api.auth.permission import allow
from api.dependencies import ServiceDep
from api.http.routing import page_router
from api.schemas import Id
from api.views import search_view, trial_view
from api.web.content.artefact_list import ArtefactReader, File, TrialFiles
from api.web.content.difference import Difference, View, difference
from api.web.content.listing import beginning
from api.web.drawings.samples import WHOLE, Drawing, drawing
from api.web.pages.trial.sheet import Setting, settings_of, source_difference, timings_of
from api.web.rendering import render
from api.web.trial_reference import TrialReference, parse_reference
from db.queries.pair import Pair, pair_of, rounds_of
from db.repositories.archive import Archive
from db.repositories.artefacts import Artefacts
from evo.errors import InvalidInput
from evo.messages.view import SearchView, TrialView
from evo.messages.view.runs import Runs
from evo.report.comparison import FEWEST, Comparison, compare
from evo.text.wording import count_text
from evo.trial.outcome import Estimated, Measured
from evo.trial.timing import Timing

router = page_router()

Name: TypeAlias = Annotated[str, Query(max_length=40)]


@router.get("/compare")
@allow("viewer")
def compare_page(
    request: Request,
    service: ServiceDep,
    *,
    left: Name = "",
    right: Name = "",
    search: Id | None = None,
    trial: Annotated[list[str] | None, Query(max_length=100)] = None,
    view: View | None = None,
) -> Response:
    """Show two trials that are given as ``left=3.57&right=3.60`` (trials 57 and 60 of search 3).

    Requests with other parameters are redirected to a URL of this form.

    Args:
        search: id of the search that contains the trials, needed if `left` and `right` are trial numbers without a
            search id.
        trial: the two trials that the user ticked in a leaderboard. None if `left` and `right` name the trials.
        view: layout of the source difference. If None, the layout is side by side in wide windows and unified in narrow
            windows.
    """
    with service.database.read() as session:
        names = _ticked(trial) if trial else {"left": left, "right": right}
        references = [parse_reference(session, field, name, search) for field, name in names.items()]
        if [left, right] != list(map(str, references)):
            return RedirectResponse(_address(references, view), 303)
        rows = [reference.row(session) for reference in references]
        both = compared(session, service.artefacts, rows, service.conductor.clock())
    return render(request, "compare/compare.html", both=both, view=view)


def _ticked(trials: list[str]) -> dict[str, str]:
    if len(trials) != 2:
        raise InvalidInput("trial", f"tick two trials to compare: {count_text(len(trials), 'trial')} ticked")
    return dict(zip(("left", "right"), trials, strict=True))


def _address(references: list[TrialReference], view: View | None) -> str:
    sides = dict(zip(("left", "right"), map(str, references), strict=True))
    return f"/compare?{urlencode(sides | ({} if view is None else {'view': view}))}"


@dataclass(frozen=True, kw_only=True)
class Half:
    """One of the two compared trials, with its search and its files."""

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
        source: difference of the sources. None if a source is not in the artefact store.
        drawing: drawing of the quick samples. None if neither trial has any.
        caveats: sentences that state why the times are not comparable.
        comparison: statistical comparison of the times. None if a trial is compared with itself, if a trial has no
            timing or too few samples, or if the timing protocols differ.
        pair: the confirmation that timed both trials in the same rounds. None if there is none.
        rounds: drawing of the rounds of this confirmation. None if `pair` is None, or its report is not stored.
        profiles: name and difference of each profile report that both trials have.
    """

    left: Half
    right: Half
    settings: tuple[Setting, ...]
    resources: tuple[Setting, ...]
    source: Difference | None
    drawing: Drawing | None
    comparison: Comparison | None
    pair: Pair | None
    rounds: Drawing | None
    profiles: tuple[tuple[str, Difference], ...]
    caveats: tuple[str, ...]

    @property
    def why_not_paired(self) -> str:
        """The reason why no confirmation timed both trials in the same rounds."""
        return self._unless_same("No confirmation timed these two trials in the same rounds.")

    @property
    def why_not_compared(self) -> str:
        """The reason why there is no comparison."""
        return self._unless_same(
            f"A comparison needs at least {FEWEST} samples of each trial, of the same timing protocol."
        )

    def _unless_same(self, reason: str) -> str:
        return "Choose two different trials." if self.left.trial.id == self.right.trial.id else reason


def compared(session: Session, store: Artefacts, trials: Sequence[int], now: datetime) -> Compared:
    """Return the comparison of two trials, which may belong to different searches.

    Args:
        trials: ids of the left and the right trial.

    Raises:
        NotFound: one of the trials does not exist.
    """
    left, right = (_half(session, store, trial_id, now) for trial_id in trials)
    timings = {half.name: half.timing for half in (left, right)}
    known = {name: timing for name, timing in timings.items() if timing is not None}
    pair = None if left.trial.id == right.trial.id else pair_of(session, *map(Archive(session).trial, trials))
    return Compared(
        left=left,
        right=right,
        settings=settings_of(left.trial.config, right.trial.config),
        resources=settings_of(left.resources, right.resources),
        source=source_difference(left.artefacts, right.artefacts),
        drawing=drawing(known, WHOLE),
        comparison=_comparison(left, right),
        pair=pair,
        rounds=None if pair is None else _rounds(rounds_of(session, pair), left, right),
        profiles=tuple(_profiles(left.artefacts, right.artefacts)),
        caveats=tuple(_caveats(left, right)),
    )


def _half(session: Session, store: Artefacts, trial_id: int, now: datetime) -> Half:
    trial = trial_view(session, trial_id)
    search = search_view(session, trial.search_id, now)
    artefacts = ArtefactReader(session, store).of_trial(trial, search.device.kind)
    return Half(trial=trial, search=search, artefacts=artefacts)


def _comparison(left: Half, right: Half) -> Comparison | None:
    """Compare the timings of two trials.

    Return None if both are the same trial, if one has no timing or too few samples, or if the timing protocols differ.
    The seed is derived from the trials, so the page shows the same figures every time.
    """
    if left.timing is None or right.timing is None or left.trial.id == right.trial.id:
        return None
    rng = np.random.default_rng((left.trial.id, right.trial.id))
    return compare(left.timing, right.timing, left.search.policy, rng)


def _rounds(timings: tuple[Timing | None, Timing | None], left: Half, right: Half) -> Drawing | None:
    sides = dict(zip((left.name, right.name), timings, strict=True))
    return drawing({name: timing for name, timing in sides.items() if timing is not None}, WHOLE)


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
    found = [
        f"The trials have different {name}: their times are not comparable."
        for name, differ in different.items()
        if differ
    ]
    challenges = {half.search.id: half.search.challenges for half in (left, right)}
    note = Runs.of([left.trial, right.trial], challenges).note
    return [*found, note] if note is not None and not found else found
