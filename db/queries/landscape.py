"""Queries for the plots of a search. The number of returned rows is limited, even for long searches."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    ColumnElement,
    Integer,
    Select,
    case,
    func,
    literal_column,
    or_,
    select,
    tuple_,
    type_coerce,
)
from sqlalchemy.orm import InstrumentedAttribute, Session

from db.models import AttemptRow, JobRow, TrialRow, WorkerRow
from evo.text.limits import LONGEST_S
from evo.trial import Config, quick_cost
from evo.trial.results import Stages

STAGES = tuple(entry.name for entry in fields(Stages))

_QUICK_US = func.coalesce(TrialRow.quick_us, TrialRow.time_us).label("time_us")
"""Quick time of a trial. Plots also show the quick times of confirmed trials, so that all times are comparable."""

_OUTCOME = type_coerce(TrialRow.outcome, JSON)
QUICK_COST = case(
    (TrialRow.quick_us.is_(None), TrialRow.cost),
    else_=func.coalesce(_OUTCOME["cost"].as_float(), TrialRow.quick_us),
)
"""SQL for the quick cost of a trial with a cost. The column `cost` of a confirmed trial is the confirmed cost."""

MOST_FRONT = 1000

MOST_RECORDS = 300
"""Maximum number of improvements of the best time that are returned. Their expected number grows with the logarithm of
the number of trials."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """A measured or estimated trial. `time_us` is its quick time."""

    number: int
    time_us: float
    config: Config
    origin: str
    resources: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Counted:
    """Number of trials with one outcome in one part of a search.

    The trials, in the order of their numbers, are divided into parts of equal size, which are numbered from 0. `kind`
    is the outcome, or None for pending trials.
    """

    part: int
    kind: str | None
    count: int


@dataclass(frozen=True, kw_only=True)
class Relative:
    """A trial with its quick time (None if it has none) and the numbers of its parents.

    `kind` is the outcome, or None for a pending trial.
    """

    number: int
    time_us: float | None
    kind: str | None
    config: Config
    origin: str
    parents: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class End:
    """An ended trial: its quick time (None if it has none), and the digest of its binary (None if it has none).

    A trial whose kernel a confirmation found invalid has no time.
    """

    number: int
    config: Config
    kind: str
    time_us: float | None
    binary: str | None


@dataclass(frozen=True, kw_only=True)
class Work:
    """One reported attempt: its worker, device, job, times and stages.

    `trial` is the number of the job's trial, or None if the job has no trial.
    """

    worker_id: str
    worker: str
    device_uuid: str
    job: str
    trial: int | None
    granted_at: datetime
    ended_at: datetime
    stages: Stages


class Landscape:
    """Reads the data of the plots of one search."""

    def __init__(self, session: Session, search_id: int) -> None:
        self.session = session
        self.search_id = search_id

    def extent(self) -> int:
        """Return the number of trials proposed so far."""
        last = self.session.scalar(select(func.max(TrialRow.number)).where(TrialRow.search_id == self.search_id))
        return 0 if last is None else last + 1

    def records(self, most: int = MOST_RECORDS) -> list[tuple[int, float]]:
        """Return (trial number, quick time in µs) of each trial that was faster than all earlier trials.

        The result is sorted by number. Trials whose kernel a confirmation found invalid are left out. If there are more
        than `most` improvements, the latest are returned. For unconfirmed trials, the query follows an index on time,
        from the fastest trial to slower ones.
        """
        quick = select(TrialRow.number, TrialRow.quick_us).where(*self._ranked(), TrialRow.quick_us.is_not(None))
        found = [(number, quick_us or 0.0) for number, quick_us in self.session.execute(quick)]
        query = select(TrialRow.number, TrialRow.time_us).where(*self._ranked(), TrialRow.quick_us.is_(None))
        query = query.order_by(TrialRow.time_us, TrialRow.number).limit(1)
        for _ in range(most):
            if (row := self.session.execute(query).first()) is None:
                break
            number, time_us = row.number, row.time_us or 0.0
            found.append((number, time_us))
            query = query.where(TrialRow.time_us > time_us, TrialRow.number < number)
        records: list[tuple[int, float]] = []
        for number, time_us in sorted(found):
            if not records or time_us < records[-1][1]:
                records.append((number, time_us))
        return records[-most:]

    def times(self, most: int) -> list[tuple[int, float]]:
        """Return (trial number, quick time in µs) of at most `most` trials, evenly spaced over the search.

        Trials whose kernel a confirmation found invalid are left out.
        """
        query = select(TrialRow.number, _QUICK_US).where(*self._ranked(), self._even(most))
        return [(number, time_us or 0.0) for number, time_us in self.session.execute(query)]

    def even(self, most: int) -> list[Point]:
        """Return at most `most` measured or estimated trials, evenly spaced over the search, sorted by number.

        Trials whose kernel a confirmation found invalid are left out.
        """
        return self._points(self._read().where(self._even(most)).order_by(TrialRow.number))

    def fastest(self, most: int) -> list[Point]:
        """Return the `most` trials with the shortest quick times, fastest first.

        Trials whose kernel a confirmation found invalid are left out. Confirmed trials are read separately, because the
        index contains their confirmed times.
        """
        quick = self._read().where(TrialRow.quick_us.is_(None)).order_by(TrialRow.time_us, TrialRow.number)
        confirmed = self._read().where(TrialRow.quick_us.is_not(None))
        found = self._points(quick.limit(most)) + self._points(confirmed)
        return sorted(found, key=lambda point: (point.time_us, point.number))[:most]

    def weighed(self, most: int, *, joint: bool) -> list[tuple[int, float, float]]:
        """Return (trial number, first value, second value) of the trials to draw, sorted by number.

        The trials are the Pareto front, all confirmed trials, the `most` unconfirmed trials with the lowest first
        value, and the `most` unconfirmed trials with the lowest second value. All values come from quick samples (see
        `front`).

        Args:
            joint: True if the values are the costs by both objectives, False if they are the time in µs and the cost.
        """
        query = select(TrialRow.number, *_figures(joint=joint)).where(*self._weighable(joint=joint))
        unconfirmed = query.where(TrialRow.quick_us.is_(None))
        parts = [unconfirmed.order_by(key, TrialRow.number).limit(most) for key in _columns(joint=joint)]
        parts.append(query.where(or_(TrialRow.quick_us.is_not(None), TrialRow.number.in_(self.front(joint=joint)))))
        rows = (row for part in parts for row in self.session.execute(part))
        found = {number: (number, one or 0.0, other or 0.0) for number, one, other in rows}
        return [found[number] for number in sorted(found)]

    def front(self, *, joint: bool) -> list[int]:
        """Return the trial numbers of the Pareto front, sorted by the first value, at most `MOST_FRONT` numbers.

        The Pareto front is defined as in `evo.trial.objective.front`: if trials have equal values, all or none of them
        are on the front. The values are those of the quick samples, because confirmed values of different runs are not
        comparable. Trials whose kernel a confirmation found invalid are left out.

        Args:
            joint: True if the values are the costs by both objectives, False if they are the time in µs and the cost.
        """
        first, second = _figures(joint=joint)
        values = select(first.label("first"), second.label("second")).where(*self._weighable(joint=joint))
        pairs = values.distinct().subquery()
        least = func.min(pairs.c.second).over(order_by=(pairs.c.first, pairs.c.second), rows=(None, -1)).label("least")
        each = select(pairs, least).subquery()
        best = select(each.c.first, each.c.second).where(or_(each.c.least.is_(None), each.c.second < each.c.least))
        members = select(TrialRow.number).where(*self._weighable(joint=joint), tuple_(first, second).in_(best))
        return list(self.session.scalars(members.order_by(first, TrialRow.number).limit(MOST_FRONT)))

    def _weighable(self, *, joint: bool) -> tuple[ColumnElement[bool], ...]:
        return (*self._ranked(), TrialRow.second_cost.is_not(None)) if joint else self._ranked()

    def ended(self, most: int) -> list[End]:
        """Return ended trials, sorted by number.

        If more than `most` trials were proposed, return only the ``most // 2`` fastest trials and an evenly spaced
        sample, together at most `most` trials.
        """
        columns = (
            TrialRow.number,
            TrialRow.proposal,
            TrialRow.outcome_kind,
            case((TrialRow.cost.is_not(None), _QUICK_US)),
            TrialRow.binary_digest,
        )
        query = select(*columns).where(TrialRow.search_id == self.search_id, TrialRow.outcome_kind.is_not(None))
        queries = [query]
        if self.extent() > most:
            numbers = [point.number for point in self.fastest(most // 2)]
            queries = [query.where(TrialRow.number.in_(numbers)), query.where(self._even(most - most // 2))]
        found = {
            number: End(number=number, config=proposal.config, kind=kind or "", time_us=time_us, binary=binary)
            for each in queries
            for number, proposal, kind, time_us, binary in self.session.execute(each)
        }
        return [found[number] for number in sorted(found)]

    def outcomes(self, parts: int) -> list[Counted]:
        """Count the trials by outcome in each of `parts` parts of the search.

        A part contains trials with consecutive numbers, and all parts have about the same size. The query finds the row
        id of the first trial of each part, and assigns trials to parts by row id. Row ids increase with the numbers,
        and the index of outcomes contains them. Grouping by number would read every trial.
        """
        asked = self.extent()
        begins = [-(-index * asked // parts) for index in range(1, parts)]
        ids = select(TrialRow.id).where(TrialRow.search_id == self.search_id, TrialRow.number.in_(begins))
        bounds = list(self.session.scalars(ids.order_by(TrialRow.number)))
        part = _part(bounds, 0).label("part")
        each = select(part, TrialRow.outcome_kind).where(TrialRow.search_id == self.search_id).subquery()
        query = select(each.c.part, each.c.outcome_kind, func.count()).group_by(each.c.part, each.c.outcome_kind)
        rows = self.session.execute(query.order_by(each.c.part))
        return [Counted(part=part, kind=kind, count=count) for part, kind, count in rows]

    def relatives(self, numbers: Collection[int]) -> dict[int, Relative]:
        """Return the trials with these numbers, by number. Each trial contains the numbers of its parents."""
        columns = (TrialRow.number, _QUICK_US, TrialRow.outcome_kind, TrialRow.proposal)
        query = select(*columns).where(TrialRow.search_id == self.search_id, TrialRow.number.in_(numbers))
        return {
            number: Relative(
                number=number,
                time_us=time_us,
                kind=kind,
                config=proposal.config,
                origin=proposal.origin,
                parents=proposal.parents,
            )
            for number, time_us, kind, proposal in self.session.execute(query)
        }

    def work(self, most: int) -> list[Work]:
        """Return the reported attempts of the `most` latest finished jobs, sorted by end time."""
        latest = select(JobRow.id).where(JobRow.search_id == self.search_id, JobRow.state == "done")
        stages = type_coerce(AttemptRow.result, JSON)["stages"].label("stages")
        columns = (
            AttemptRow.worker_id,
            WorkerRow.name,
            AttemptRow.device_uuid,
            AttemptRow.granted_at,
            AttemptRow.ended_at,
            stages,
        )
        query = (
            select(*columns, JobRow.kind, TrialRow.number)
            .join(AttemptRow.job)
            .outerjoin(WorkerRow, WorkerRow.id == AttemptRow.worker_id)
            .outerjoin(TrialRow, TrialRow.id == JobRow.trial_id)
            .where(JobRow.id.in_(latest.order_by(JobRow.id.desc()).limit(most)), AttemptRow.state == "done")
        )
        found = [
            Work(
                worker_id=row.worker_id,
                worker=row.name or row.worker_id,
                device_uuid=row.device_uuid,
                job=row.kind,
                trial=row.number,
                granted_at=row.granted_at,
                ended_at=row.ended_at or row.granted_at,
                stages=Stages(**(row.stages or {})),
            )
            for row in self.session.execute(query)
        ]
        return sorted(found, key=lambda work: work.ended_at)

    def spent(self) -> list[tuple[str, int, Stages]]:
        """Return (kind of job, number of reported attempts, total time of each stage), most frequent kind first."""
        stages = type_coerce(AttemptRow.result, JSON)["stages"]
        sums = [func.sum(_believable(stages[name].as_float())).label(name) for name in STAGES]
        query = select(JobRow.kind, func.count(), *sums).join(AttemptRow.job)
        query = query.where(JobRow.search_id == self.search_id, AttemptRow.state == "done").group_by(JobRow.kind)
        rows = self.session.execute(query.order_by(func.count().desc(), JobRow.kind))
        return [(kind, count, Stages(**dict(zip(STAGES, found, strict=True)))) for kind, count, *found in rows]

    def _read(self) -> Select[Any]:
        resources = type_coerce(TrialRow.outcome, JSON)["resources"].label("resources")
        return select(TrialRow.number, _QUICK_US, TrialRow.proposal, resources).where(*self._ranked())

    def _points(self, query: Select[Any]) -> list[Point]:
        return [
            Point(
                number=row.number,
                time_us=row.time_us,
                config=row.proposal.config,
                origin=row.proposal.origin,
                resources=row.resources or {},
            )
            for row in self.session.execute(query)
        ]

    def _even(self, most: int) -> ColumnElement[bool]:
        return TrialRow.number % max(1, -(-self.extent() // most)) == 0

    def _ranked(self) -> tuple[ColumnElement[bool], ...]:
        """Return the conditions for ranked trials: they have a time, and no confirmation found their kernel invalid."""
        return TrialRow.search_id == self.search_id, TrialRow.time_us.is_not(None), TrialRow.cost.is_not(None)


def _columns(*, joint: bool) -> tuple[InstrumentedAttribute[float | None], InstrumentedAttribute[float | None]]:
    return (TrialRow.cost, TrialRow.second_cost) if joint else (TrialRow.time_us, TrialRow.cost)


def _figures(*, joint: bool) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    """Return SQL for the first and the second quick value of a trial. `Landscape.front` describes `joint`.

    The columns of confirmed trials contain confirmed values, so their quick values come from the outcome.
    """
    if not joint:
        return _QUICK_US, QUICK_COST
    return QUICK_COST, case(
        (TrialRow.quick_us.is_(None), TrialRow.second_cost), else_=_OUTCOME["second_cost"].as_float()
    )


def _believable(span_s: ColumnElement[float]) -> ColumnElement[float]:
    """Return `span_s`, or 0 if `span_s` is negative or above `LONGEST_S`.

    Older versions of kernel-evo did not check the durations in reports. A huge duration would make sums infinite.
    """
    return case((span_s.between(0.0, LONGEST_S), span_s), else_=0.0)


def _part(bounds: Sequence[int], first: int) -> ColumnElement[int]:
    """Return SQL for the index of the part that contains a trial: a binary search over the row ids `bounds`.

    Args:
        bounds: row ids of the first trial of each part except the first part, in ascending order.
        first: index of the first part.
    """
    if not bounds:
        return literal_column(str(first), Integer)
    middle = len(bounds) // 2
    below, above = _part(bounds[:middle], first), _part(bounds[middle + 1 :], first + middle + 1)
    return case((TrialRow.id < bounds[middle], below), else_=above)


Points = list[tuple[int, float]]
"""(trial number, cost) pairs, sorted by number."""


class Trends:
    """Reads the costs of several searches over time. Only an index and confirmed trials are read, which is fast."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def lows(self, searches: Collection[int], points: int) -> dict[int, Points]:
        """Return, by search id, the least quick cost in each of `points` parts of the search.

        A part contains trials with consecutive numbers, and all parts of a search have about the same size. Each cost
        is paired with the number of the last trial of the part that has a cost. Parts without a cost are left out.
        Quick costs are also used for confirmed trials, because confirmed costs are not comparable with quick costs.
        """
        mine, ranked = TrialRow.search_id.in_(searches), TrialRow.cost.is_not(None)
        ends = select(TrialRow.search_id, (func.max(TrialRow.number) + 1).label("count")).where(mine)
        sizes = ends.group_by(TrialRow.search_id).subquery()
        part = (TrialRow.number * points // sizes.c.count).label("part")  # PostgreSQL would round a quotient
        confirmed = select(TrialRow.search_id, TrialRow.number).where(mine, TrialRow.quick_us.is_not(None))
        quick = (
            select(TrialRow.search_id, part, func.max(TrialRow.number), func.min(TrialRow.cost))
            .join(sizes, sizes.c.search_id == TrialRow.search_id)
            .where(mine, ranked, tuple_(TrialRow.search_id, TrialRow.number).not_in(confirmed))
            .group_by(TrialRow.search_id, part)
        )
        again = select(TrialRow.search_id, part, TrialRow.number, TrialRow.outcome).join(
            sizes, sizes.c.search_id == TrialRow.search_id
        )
        found = [(search, index, number, cost) for search, index, number, cost in self.session.execute(quick)]
        for search, index, number, outcome in self.session.execute(
            again.where(mine, ranked, TrialRow.quick_us.is_not(None))
        ):
            found.append((search, index, number, quick_cost(outcome)))
        parts: dict[int, dict[int, tuple[int, float]]] = {search: {} for search in searches}
        for search, index, number, cost in found:
            if cost is not None:
                last, least = parts[search].get(index, (number, cost))
                parts[search][index] = (max(last, number), min(least, cost))
        return {search: [each[index] for index in sorted(each)] for search, each in parts.items()}
