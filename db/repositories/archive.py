"""Repository of families, searches and trials."""

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, or_, select, tuple_
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, joinedload

from db.engine.events import Events
from db.models import ChampionRow, FamilyRow, SearchRow, TrialRow, table
from db.repositories.artefacts import DIGEST
from db.repositories.readable import readable
from evo.errors import Conflict, MissingItem, NotFound
from evo.promotion.goal import Goal
from evo.promotion.leading import Confirmation
from evo.search.lifecycle import State
from evo.search.search import Logged
from evo.text.suggestion import unknown
from evo.trial import Trial, quick_cost
from evo.trial.outcome import Cancelled
from evo.trial.results import BaselineReport

LONGEST_SHOWN = 80

BUNDLE = "bundle:"
"""Prefix of a family location that names an uploaded artefact."""

UNFINISHED: tuple[State, ...] = ("running", "paused", "stopping", "ablating")

_SEARCHES = table(SearchRow).c
_AT_WORK = (
    select(_SEARCHES.id)
    .where(_SEARCHES.state.in_(("running", "stopping", "ablating")))
    .order_by(_SEARCHES.priority.desc(), _SEARCHES.id)
)

NO_FAILURE = ("measured", "estimated", "pruned", "reference_failed", "abandoned", "cancelled")
"""Outcomes that are not failures of the config."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """Values to store with a trial that has ended. `db.models.TrialRow` describes all fields except `logged` and `at`.

    Attributes:
        logged: the trial with its outcome and its position among the ended trials.
        at: time of the end.
        overhead_ms, delivery_ms: None if unknown.
    """

    logged: Logged
    at: datetime
    suspect: bool = False
    overhead_ms: float | None = None
    delivery_ms: float | None = None


@dataclass(frozen=True, kw_only=True)
class Registration:
    """Digest, name and document of a family or variant to store."""

    digest: str
    name: str
    document: dict[str, Any]


class Archive:
    """Reads and writes families, searches and trials within one session. The caller commits the session."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def register_family(
        self, *, digest: str, name: str, document: dict[str, Any], location: str | None, now: datetime
    ) -> FamilyRow:
        """Store a family under its digest, and return its row.

        If the digest is already stored, only the location and the registration time are updated. A location in the
        artefact store is kept, because every worker can fetch the family from this store.

        Args:
            location: path of the family on the workers. None for a built-in family.
        """
        at = self._after_others(digest, name, now)
        row = self.session.get(FamilyRow, digest)
        if row is None:
            row = FamilyRow(digest=digest, name=name, document=document)
            self.session.add(row)
        if row.location is None or not row.location.startswith(BUNDLE):
            row.location = location
        row.registered_at = at
        return row

    def _after_others(self, digest: str, name: str, now: datetime) -> datetime:
        """Return a registration time after those of all other versions of a family.

        Usually this is `now`. If the clock was ahead when another version was registered, it is shortly after the
        registration of that version.
        """
        others = select(FamilyRow.registered_at).where(
            FamilyRow.name == name, FamilyRow.digest != digest, FamilyRow.base_digest.is_(None)
        )
        latest = self.session.scalar(others.order_by(FamilyRow.registered_at.desc()).limit(1))
        return now if latest is None else max(now, latest + timedelta(microseconds=1))

    def register_missing(self, families: Sequence[Registration], *, now: datetime) -> None:
        """Store the families that are not registered yet. Several processes may do this at the same time."""
        digests = [family.digest for family in families]
        known = set(self.session.scalars(select(FamilyRow.digest).where(FamilyRow.digest.in_(digests))))
        for family in families:
            if family.digest not in known:
                row = FamilyRow(digest=family.digest, name=family.name, document=family.document, registered_at=now)
                with contextlib.suppress(IntegrityError), self.session.begin_nested():
                    self.session.add(row)

    def upload_family(
        self, *, digest: str, name: str, document: dict[str, Any], artefact: str, now: datetime
    ) -> FamilyRow:
        """Store a family whose files were uploaded, and return its row.

        The location and the document of a known family are replaced.
        """
        location = f"{BUNDLE}{artefact}"
        row = self.register_family(digest=digest, name=name, document=document, location=location, now=now)
        row.location, row.document = location, document
        return row

    def add_variant(self, family: Registration, *, base_digest: str, artefact: str, now: datetime) -> FamilyRow:
        """Store a variant as a family row, and return the row.

        `base_digest` is the digest of the family that the variant implements. If the row exists, its location and its
        registration time are updated.

        Raises:
            Conflict: a family with the digest exists and is not a variant of the family `base_digest`.
        """
        row = self.version(family.digest)
        if row is None:
            row = FamilyRow(digest=family.digest, name=family.name, document=family.document, base_digest=base_digest)
            self.session.add(row)
        elif row.base_digest != base_digest:
            raise Conflict(
                f"family {family.digest[:12]} is already registered, and is not a variant of {base_digest[:12]}"
            )
        row.location, row.registered_at = f"{BUNDLE}{artefact}", now
        return row

    def version(self, digest: str) -> FamilyRow | None:
        """Return the family with this digest, or None if it is not registered."""
        return self.session.get(FamilyRow, digest)

    def has_location(self, name: str) -> bool:
        """Return True if a version of this family was registered with a location. A built-in family has none."""
        own = (FamilyRow.name == name, FamilyRow.location.is_not(None), FamilyRow.base_digest.is_(None))
        some = select(FamilyRow.digest).where(*own).limit(1)
        return self.session.scalar(some) is not None

    def family(self, digest: str) -> FamilyRow:
        if (row := self.session.get(FamilyRow, digest)) is None:
            raise NotFound(
                f"no family with digest {digest} is registered", request=f"register it first (PUT /families/{digest})"
            )
        return row

    def family_named(self, name: str, own: Mapping[str, str]) -> FamilyRow:
        """Return the latest version of a family.

        If a digest is given instead of the name, return the version with this digest.

        Args:
            own: digest by family name, for names whose version is fixed (see `latest_families`).

        Raises:
            NotFound: the family does not exist.
        """
        if DIGEST.fullmatch(name):
            return self.family(name)
        rows = {row.name: row for row in readable(self.session, latest_families(own))}
        if name not in rows:
            raise NotFound(unknown(name[:LONGEST_SHOWN], list(rows), "families"))
        return rows[name]

    def families(self) -> Sequence[FamilyRow]:
        """Return the latest version of each family, sorted by name."""
        return readable(self.session, latest_families().order_by(FamilyRow.name))

    def state(self, search_id: int) -> State:
        """Return the state of a search, even if the JSON documents of the search cannot be read.

        Raises:
            NotFound: the search does not exist.
        """
        state = self.session.scalar(select(SearchRow.state).where(SearchRow.id == search_id))
        if state is None:
            raise MissingItem("search", search_id, request="GET /searches lists them")
        return state

    def search(self, search_id: int) -> SearchRow:
        """Return one search with its family.

        Raises:
            NotFound: the search does not exist.
        """
        row = self.session.get(SearchRow, search_id, options=[joinedload(SearchRow.family)])
        if row is None:
            raise MissingItem("search", search_id, request="GET /searches lists them")
        return row

    def searches(
        self, *, states: Collection[State] | None = None, before: int | None = None, limit: int | None = None
    ) -> Sequence[SearchRow]:
        """Return searches with their families, newest first. Unreadable searches are left out.

        Args:
            states: states to include. If None, all states are included.
            before: only searches with lower ids are returned. If None, all ids are included.
            limit: maximum number of searches. If None, there is no limit.
        """
        query = select(SearchRow).options(joinedload(SearchRow.family)).order_by(SearchRow.id.desc())
        if states is not None:
            query = query.where(SearchRow.state.in_(states))
        if before is not None:
            query = query.where(SearchRow.id < before)
        return readable(self.session, query, limit=limit)

    def unfinished(self) -> dict[int, int]:
        """Return the revisions of unfinished searches by search id, highest priority first, then oldest first."""
        query = select(SearchRow.id, SearchRow.revision).where(SearchRow.state.in_(UNFINISHED))
        rows = self.session.execute(query.order_by(SearchRow.priority.desc(), SearchRow.id))
        return {search_id: revision for search_id, revision in rows}  # noqa: C416

    def at_work(self) -> list[int]:
        """Return the ids of searches that may have jobs for workers, highest priority first, then oldest first."""
        return list(self.session.scalars(_AT_WORK))

    def baselines(self, search_id: int) -> BaselineReport | None:
        return self.session.scalar(select(SearchRow.baselines).where(SearchRow.id == search_id))

    def end_trial(self, row: TrialRow, ended: Ended) -> None:
        """Set the outcome of a trial.

        The outcome is written when the session is flushed, in one batch with other changes.

        Raises:
            RuntimeError: the trial already has an outcome.
        """
        trial = ended.logged.trial
        if row.finished_seq is not None:
            raise RuntimeError(f"trial {row.number} of search {row.search_id} already has an outcome")
        row.outcome, row.outcome_kind = trial.outcome, None if trial.outcome is None else trial.outcome.kind
        row.time_us, row.cost, row.second_cost = trial.time_us, trial.cost, trial.second_cost
        row.finished_seq, row.finished_at = ended.logged.position, ended.at
        row.binary_digest, row.suspect = trial.binary_digest, ended.suspect
        row.overhead_ms, row.delivery_ms = ended.overhead_ms, ended.delivery_ms

    def confirm(self, trial: TrialRow, confirmation: Confirmation, goal: Goal | None, second: Goal | None) -> None:
        """Store the confirmed time and cost of a trial, in place of its quick values.

        If the confirmation found the kernel invalid, the costs become None. Other trials of the same search with the
        same binary are changed in the same way.

        Args:
            goal: metric of the search. None if the search minimises the time.
            second: second metric of the search. None if the search has one objective.
        """
        self.session.flush()
        same: ColumnElement[bool] = TrialRow.id == trial.id
        if trial.binary_digest is not None:
            same = (TrialRow.search_id == trial.search_id) & (TrialRow.binary_digest == trial.binary_digest)
        for row in self.session.scalars(select(TrialRow).where(same, TrialRow.time_us.is_not(None))):
            _set_confirmed(row, confirmation, goal, second)

    def confirm_duplicate(self, trial: TrialRow, goal: Goal | None, second: Goal | None) -> None:
        """Copy the confirmation of an earlier trial with the same binary, if there is one, to this trial.

        Args:
            goal: metric of the search. None if the search minimises the time.
            second: second metric of the search. None if the search has one objective.
        """
        same = (TrialRow.search_id == trial.search_id) & (TrialRow.binary_digest == trial.binary_digest)
        found = select(TrialRow.confirmed).where(same, TrialRow.quick_us.is_not(None)).limit(1)
        confirmation = self.session.scalar(found)
        if confirmation is not None and trial.time_us is not None:
            _set_confirmed(trial, confirmation, goal, second)

    def cancel_pending(self, search_id: int, now: datetime) -> None:
        """End every pending trial of a search with the outcome Cancelled, in the order of the trial numbers."""
        pending = self._trials(search_id, None).where(TrialRow.finished_seq.is_(None)).order_by(TrialRow.number)
        ended = self.session.scalar(select(func.count(TrialRow.finished_seq)).where(TrialRow.search_id == search_id))
        rows = self.session.scalars(pending).all()
        for index, row in enumerate(rows, start=ended or 0):
            row.outcome, row.outcome_kind, row.finished_seq, row.finished_at = Cancelled(), "cancelled", index, now
        Events(self.session).trials_ended(search_id, [row.id for row in rows])

    def trial(self, trial_id: int) -> TrialRow:
        if (row := self.session.get(TrialRow, trial_id)) is None:
            raise MissingItem("trial", trial_id, request="GET /searches/ID/trials lists the trials of a search")
        return row

    def numbered(self, search_id: int, number: int) -> TrialRow:
        """Return the trial with this number in a search.

        Raises:
            NotFound: the search has no such trial.
        """
        row = self.session.scalars(self._trials(search_id, None).where(TrialRow.number == number)).first()
        if row is None:
            raise NotFound(f"search {search_id} has no trial {number}")
        return row

    def searches_with_binary(self, binary_digest: str, search_ids: Collection[int]) -> set[int]:
        """Return the ids, among `search_ids`, of the searches that have a trial with this binary."""
        same = TrialRow.search_id.in_(search_ids) & (TrialRow.binary_digest == binary_digest)
        return set(self.session.scalars(select(TrialRow.search_id).where(same)))

    def trials_of(self, trial_ids: Collection[int]) -> dict[int, TrialRow]:
        """Return the trials with these ids, by id. Ids of deleted trials are left out."""
        return {row.id: row for row in self.session.scalars(select(TrialRow).where(TrialRow.id.in_(trial_ids)))}

    def searches_of(self, search_ids: Collection[int]) -> Sequence[SearchRow]:
        """Return the searches with these ids, with their families. Ids of deleted searches are left out."""
        query = select(SearchRow).options(joinedload(SearchRow.family)).where(SearchRow.id.in_(search_ids))
        return self.session.scalars(query.order_by(SearchRow.id)).all()

    def trials(
        self, search_id: int, *, outcome: str | None = None, after: int | None = None, limit: int | None = None
    ) -> Sequence[TrialRow]:
        """Return the trials of a search, sorted by number.

        Args:
            outcome: only trials with this outcome, or ``pending`` trials, are returned. If None, all are returned.
            after: only trials with higher numbers are returned. If None, all numbers are included.
            limit: maximum number of trials. If None, there is no limit.
        """
        query = self._trials(search_id, outcome).order_by(TrialRow.number).limit(limit)
        if after is not None:
            query = query.where(TrialRow.number > after)
        return self.session.scalars(query).all()

    def first_ended(self, search_id: int, count: int) -> Sequence[TrialRow]:
        """Return the ended trials among the first `count` trials, sorted by number."""
        early = self._trials(search_id, None).where(TrialRow.number < count, TrialRow.finished_seq.is_not(None))
        return self.session.scalars(early.order_by(TrialRow.number)).all()

    def progress(self, search_id: int) -> list[tuple[int, float]]:
        """Return (position among the ended trials, quick cost) of each trial with a cost, sorted by position.

        Quick costs are also used for confirmed trials, because confirmed costs are not comparable with quick costs.
        """
        ranked = (TrialRow.search_id == search_id, TrialRow.cost.is_not(None))
        quick = select(TrialRow.finished_seq, TrialRow.cost).where(*ranked, TrialRow.quick_us.is_(None))
        found = [(position, cost) for position, cost in self.session.execute(quick)]
        confirmed = select(TrialRow.finished_seq, TrialRow.outcome).where(*ranked, TrialRow.quick_us.is_not(None))
        found += [(position, quick_cost(outcome)) for position, outcome in self.session.execute(confirmed)]
        return sorted((position, cost) for position, cost in found if position is not None and cost is not None)

    def latest_failures(self, search_id: int, limit: int) -> Sequence[TrialRow]:
        """Return up to `limit` trials that failed because of their config. The trial that ended last comes first."""
        query = self._trials(search_id, None).where(TrialRow.outcome_kind.not_in(NO_FAILURE))
        return self.session.scalars(query.order_by(TrialRow.finished_seq.desc()).limit(limit)).all()

    def trial_of_binary(self, search_ids: Sequence[int], binary_digest: str) -> TrialRow:
        """Return the first ended trial whose binary has the digest `binary_digest`.

        If several searches have such a trial, the first search in `search_ids` is used.

        Raises:
            NotFound: no ended trial has a binary with this digest.
        """
        for search_id in search_ids:
            ended = self._trials(search_id, None).where(TrialRow.binary_digest == binary_digest)
            if (row := self.session.scalars(ended.order_by(TrialRow.number).limit(1)).first()) is not None:
                return row
        raise NotFound(f"search {search_ids[0]} has no result for a binary {binary_digest}")

    def counts(self, search_ids: Collection[int]) -> dict[int, dict[str | None, int]]:
        """Return the number of trials by outcome, for each search by id. The key None contains the pending trials."""
        query = (
            select(TrialRow.search_id, TrialRow.outcome_kind, func.count())
            .where(TrialRow.search_id.in_(search_ids))
            .group_by(TrialRow.search_id, TrialRow.outcome_kind)
        )
        counted: dict[int, dict[str | None, int]] = {search_id: {} for search_id in search_ids}
        for search_id, kind, count in self.session.execute(query):
            counted[search_id][kind] = count
        return counted

    def best(self, search_id: int) -> TrialRow | None:
        """Return the best trial of a search, or None if there is none.

        In order of precedence, this is the trial of the current champion (if this search found it), the confirmed trial
        with the lowest cost, or the unconfirmed trial with the lowest cost. If costs are equal, the earlier trial is
        returned. Trials without a cost, e.g. because a confirmation found their kernel invalid, are returned only as
        the trial of the current champion.
        """
        champion = select(TrialRow).join(ChampionRow, ChampionRow.trial_id == TrialRow.id)
        own = champion.where(ChampionRow.search_id == search_id, ChampionRow.current)
        if (promoted := self.session.scalars(own.limit(1)).first()) is not None:
            return promoted
        fastest = self._fastest(search_id)
        for wanted in (TrialRow.quick_us.is_not(None), TrialRow.quick_us.is_(None)):
            if (found := self.session.scalars(fastest.where(wanted).limit(1)).first()) is not None:
                return found
        return None

    def not_valid(self, search_ids: Collection[int]) -> list[tuple[TrialRow, Confirmation]]:
        """Return the measured trials whose confirmation found that the kernel is, or may be, invalid.

        Each trial is returned with its confirmation. The result is sorted by trial number.
        """
        unranked = select(TrialRow).where(
            TrialRow.search_id.in_(search_ids), TrialRow.outcome_kind == "measured", TrialRow.cost.is_(None)
        )
        rows = self.session.scalars(unranked.order_by(TrialRow.number)).all()
        return [(row, row.confirmed) for row in rows if row.confirmed is not None and not row.confirmed.valid]

    def first_of_each_failure(self, search_ids: Collection[int]) -> Sequence[TrialRow]:
        """Return the first trial of each search with each outcome except ``measured`` and ``estimated``."""
        eligible = TrialRow.search_id.in_(search_ids) & TrialRow.outcome_kind.not_in(("measured", "estimated"))
        first = select(TrialRow.search_id, func.min(TrialRow.number)).where(eligible)
        each = first.group_by(TrialRow.search_id, TrialRow.outcome_kind)
        return self.session.scalars(select(TrialRow).where(tuple_(TrialRow.search_id, TrialRow.number).in_(each))).all()

    def faster_unconfirmed(self, best: TrialRow) -> TrialRow | None:
        """Return the best unconfirmed trial whose quick cost is below the quick cost of `best`, or None.

        The result is also None if `best` is unconfirmed. The confirmed cost of `best` is not used, because it is not
        comparable with quick costs.
        """
        cost = quick_cost(best.outcome)
        if best.quick_us is None or cost is None:
            return None
        query = self._fastest(best.search_id).where(TrialRow.cost < cost, TrialRow.quick_us.is_(None))
        return self.session.scalars(query.limit(1)).first()

    def _fastest(self, search_id: int) -> Select[TrialRow]:
        measured = self._trials(search_id, None).where(TrialRow.cost.is_not(None))
        return measured.order_by(TrialRow.cost, TrialRow.number)

    def costs_ms(self, search_id: int, limit: int = 1000) -> list[tuple[float, float]]:
        """Return (search overhead, delivery time) in ms for each of the latest `limit` trials with a known overhead.

        An unknown delivery time is returned as 0.
        """
        query = select(TrialRow.overhead_ms, TrialRow.delivery_ms).where(
            TrialRow.search_id == search_id, TrialRow.overhead_ms.is_not(None), TrialRow.finished_seq.is_not(None)
        )
        latest = self.session.execute(query.order_by(TrialRow.finished_seq.desc()).limit(limit))
        return [(overhead, delivery or 0.0) for overhead, delivery in latest if overhead is not None]

    @staticmethod
    def _trials(search_id: int, outcome: str | None) -> Select[TrialRow]:
        query = select(TrialRow).where(TrialRow.search_id == search_id)
        if outcome is None:
            return query
        return query.where(TrialRow.outcome_kind == (None if outcome == "pending" else outcome))


def latest_families(own: Mapping[str, str] | None = None) -> Select[FamilyRow]:
    """Return a query for the latest version of each family.

    Args:
        own: digest by family name, for names whose version is fixed. Later versions of such a name are ignored. If
            None, no version is fixed.
    """
    own = own or {}
    listed = or_(FamilyRow.name.not_in(own), FamilyRow.digest.in_(own.values()))
    eligible = and_(listed, FamilyRow.base_digest.is_(None))
    newest = select(FamilyRow.name, func.max(FamilyRow.registered_at)).where(eligible).group_by(FamilyRow.name)
    return select(FamilyRow).where(eligible, tuple_(FamilyRow.name, FamilyRow.registered_at).in_(newest))


def _set_confirmed(row: TrialRow, confirmation: Confirmation, goal: Goal | None, second: Goal | None) -> None:
    row.quick_us = row.time_us if row.quick_us is None else row.quick_us
    row.confirmed = confirmation
    if confirmation.time is not None:
        row.time_us = confirmation.time.estimate
    if not confirmation.valid or row.time_us is None:
        row.cost = row.second_cost = None
        return
    trial = Trial(number=row.number, proposal=row.proposal, outcome=row.outcome)
    row.cost = row.time_us if goal is None else goal.confirmed(trial, row.time_us)
    row.second_cost = None if second is None else second.confirmed(trial, row.time_us)
