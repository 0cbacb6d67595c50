"""Builds the content of a trial's page, including the differences from another trial."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from api.views import search_view, trial_view
from api.web.content.artefact_list import ArtefactReader, TrialFiles
from api.web.content.difference import Difference, difference
from api.web.content.listing import beginning
from api.web.drawings.samples import Drawing, drawing
from api.web.trial_reference import FORM, TrialReference
from db.queries.leaderboard import Leaderboard
from db.repositories.artefacts import Artefacts
from db.repositories.fleet import Fleet
from evo.errors import InvalidInput, NotFound
from evo.messages.view import SearchView, TrialView
from evo.promotion import Verdict
from evo.promotion.leading import Figure
from evo.promotion.statistics import CONFIDENCE, Interval, order_interval
from evo.trial import Config, Value
from evo.trial.objective import Objective
from evo.trial.outcome import CaseError, Estimated, Impossible, Measured, Outcome, Pruned, WrongAnswer
from evo.trial.results import ConfirmReport
from evo.trial.timing import Power, Timing

ROLES = ("parent", "champion")
"""Names of related trials that a trial can be compared with."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Value of one tunable or resource in this trial and in the other trial. None if the trial has no such value."""

    name: str
    value: Value | None
    other: Value | None

    @property
    def differs(self) -> bool:
        return self.value != self.other


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Differences in settings and source from another trial.

    Attributes:
        role: relation of the other trial to this one: ``parent``, ``champion`` or ``trial``.
        source: difference of the sources. None if one of the sources is not in the artefact store.
    """

    role: str
    other: TrialView
    settings: tuple[Setting, ...]
    source: Difference | None


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """Content of a trial's page.

    Attributes:
        rank: rank among the trials that have a cost. None if this trial has no cost.
        measured: number of measured trials, or of estimated trials if the search only estimates times.
        drawings: plots of the samples by cache mode (hot or cold). The mode that determines the ranking comes first.
        challenges: verdicts on this trial, oldest first.
        workers: names of the workers that attempted the trial, by id.
        reachable: the related trials that exist: ``parent``, ``champion``, or both.
        changes: differences from the trial with which this trial is compared. None if there is no such trial.
    """

    trial: TrialView
    search: SearchView
    rank: int | None
    measured: int
    artefacts: TrialFiles
    drawings: Mapping[str, Drawing]
    confirmations: tuple[ConfirmReport, ...]
    challenges: tuple[Verdict, ...]
    reachable: tuple[str, ...]
    changes: Changes | None
    workers: Mapping[str, str]

    @property
    def timings(self) -> Mapping[str, Timing]:
        return timings_of(self.trial.outcome, self.search.objective)

    @property
    def interval(self) -> Interval | None:
        """Confidence interval of the shown time.

        It comes from the confirmation if there is one, else from the quick samples. None if the trial has no samples.
        """
        if self.trial.confirmed is not None and self.trial.confirmed.time is not None:
            return self.trial.confirmed.time
        return next((order_interval(each.samples_us, CONFIDENCE) for each in self.timings.values()), None)

    @property
    def shown_us(self) -> float | None:
        """Time of the trial in µs or, if the trial has no time, the median of its samples.

        None if there are no samples.
        """
        return self.trial.time_us or next((each.median_us for each in self.timings.values()), None)

    @property
    def cases(self) -> tuple[CaseError, ...]:
        """Results of all correctness checks."""
        outcome = self.trial.outcome
        return outcome.cases if isinstance(outcome, Measured | WrongAnswer) else ()

    @property
    def resources(self) -> Mapping[str, float]:
        outcome = self.trial.outcome
        return outcome.resources if isinstance(outcome, Measured | Estimated) else {}

    @property
    def power(self) -> Power | None:
        """Power draw of the device, measured after the time samples in the same session.

        None if the trial was not measured, or if the search's metric does not use the power.
        """
        outcome = self.trial.outcome
        return outcome.timing.power if isinstance(outcome, Measured) else None

    @property
    def speedup(self) -> Figure | None:
        """Speed-up over the fastest baseline. It is the confirmed speed-up if the time is confirmed.

        None without a time or a baseline, and if a confirmation found that the kernel is, or may be, invalid.
        """
        return self.trial.speedup(self.search.baselines)

    @property
    def share(self) -> float | None:
        """Roofline time divided by the trial's time. Above 1 if the roofline is wrong; None if a time is unknown."""
        return None if self.search.roofline is None else self.search.roofline.share(self.trial.time_us)


def sheet_of(session: Session, store: Artefacts, trial_id: int, now: datetime, *, against: str | None = None) -> Sheet:
    """Return the content of a trial's page.

    Args:
        against: the trial to compare with: ``parent``, ``champion``, a trial number in this search (``57``), or a
            search id and a trial number (``3.57``). If None, the first of `Sheet.reachable`.

    Raises:
        NotFound: the trial, or the trial to compare with, does not exist.
        InvalidInput: `against` has none of these forms.
    """
    trial = trial_view(session, trial_id)
    search = search_view(session, trial.search_id, now)
    reader, kind = ArtefactReader(session, store), search.device.kind
    artefacts = reader.of_trial(trial, kind)
    reachable = tuple(_related(trial, search))
    changes, against = None, against or next(iter(reachable), None)
    if against is not None:
        other = trial_view(session, _chosen(against, trial, search).row(session))
        changes = _changes(trial, artefacts, other, reader.of_trial(other, kind), against)
    return Sheet(
        trial=trial,
        search=search,
        rank=Leaderboard(session).ranks([search.id], [trial_id]).get(trial_id),
        measured=search.counts.get("estimated" if search.estimated else "measured", 0),
        artefacts=artefacts,
        drawings={
            cache: drawn
            for cache, timing in timings_of(trial.outcome, search.objective).items()
            if (drawn := drawing({f"trial {trial.number}, {cache}": timing})) is not None
        },
        confirmations=tuple(each for each in reader.reports(trial) if isinstance(each, ConfirmReport)),
        challenges=tuple(each.verdict for each in search.challenges if each.trial == trial.number),
        reachable=reachable,
        changes=changes,
        workers={row.id: row.name for row in Fleet(session).some({each.worker_id for each in trial.attempts})},
    )


def timings_of(outcome: Outcome | None, objective: Objective) -> dict[str, Timing]:
    """Return the timings of an outcome by cache mode (hot, cold). The mode that determines the ranking comes first."""
    match outcome:
        case Measured(other=Timing() as other):
            return {objective.cache: outcome.timing, "cold" if objective.cache == "hot" else "hot": other}
        case Measured() | Pruned() | Impossible():
            return {objective.cache: outcome.timing}
    return {}


def settings_of(config: Config, other: Config) -> tuple[Setting, ...]:
    names = [*config, *(name for name in other if name not in config)]
    return tuple(Setting(name=name, value=config.get(name), other=other.get(name)) for name in names)


def source_difference(left: TrialFiles, right: TrialFiles) -> Difference | None:
    """Return the difference from the left source to the right source, or None if a source is missing."""
    texts = [None if artefacts.source is None else artefacts.source.text for artefacts in (left, right)]
    lines = [beginning(text.splitlines()) for text in texts if text is not None]
    return difference(*lines) if len(lines) == 2 else None


def _changes(trial: TrialView, artefacts: TrialFiles, other: TrialView, theirs: TrialFiles, against: str) -> Changes:
    return Changes(
        role=against if against in ROLES else "trial",
        other=other,
        settings=tuple(each for each in settings_of(trial.config, other.config) if each.differs),
        source=source_difference(theirs, artefacts),
    )


def _chosen(against: str, trial: TrialView, search: SearchView) -> TrialReference:
    if match := FORM.fullmatch(against.strip()):
        named, number = match.groups()
        return TrialReference(search=int(named or search.id), number=int(number))
    if (found := _related(trial, search).get(against)) is not None:
        return found
    if against in ROLES:
        raise NotFound(
            f"trial {trial.number} cannot be compared with its {against}, which does not exist or is this trial "
            "itself; use the number of another trial"
        )
    named = "the number of a trial of this search, or search and number of another trial, e.g. `3.57`"
    raise InvalidInput("against", f"must be `parent`, `champion`, {named}")


def _related(trial: TrialView, search: SearchView) -> dict[str, TrialReference]:
    """Return the related trials by name. The champion may come from another search."""
    champion = search.champion
    found = {
        "parent": TrialReference(search=search.id, number=trial.parents[0]) if trial.parents else None,
        "champion": None
        if champion is None
        else TrialReference(search=champion.search_id, number=champion.trial_number),
    }
    return {
        role: reference
        for role, reference in found.items()
        if reference is not None and reference != TrialReference.of(trial)
    }
