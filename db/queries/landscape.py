"""What plots of a search need, in as few rows as a drawing has room for, whatever the length of the search."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ColumnElement, Integer, Select, case, func, literal_column, select, type_coerce
from sqlalchemy.orm import Session

from db.models import AttemptRow, JobRow, TrialRow, WorkerRow
from evo.results import Stages
from evo.text.limits import LONGEST_S
from evo.trial import Config

STAGES = tuple(entry.name for entry in fields(Stages))

_QUICK_US = func.coalesce(TrialRow.quick_us, TrialRow.time_us).label("time_us")
"""What compares configs with each other: quick samples with quick samples, whatever a confirmation found since."""

MOST_RECORDS = 300
"""Improvements of a search that are told; there are about as many as the logarithm of its trials."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """A measured trial; `time_us` is that of its quick samples, which compare with those of the others."""

    number: int
    time_us: float
    config: Config
    origin: str
    resources: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Counted:
    """How many trials of one part of a search, counted from 0, ended in one way (None: not yet)."""

    part: int
    kind: str | None
    count: int


@dataclass(frozen=True, kw_only=True)
class Relative:
    """A trial in a line of descent."""

    number: int
    time_us: float | None
    kind: str | None
    config: Config
    origin: str
    parents: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class End:
    """An ended trial; `time_us` (quick) is None where it has none, `binary` where nothing was compiled."""

    number: int
    config: Config
    kind: str
    time_us: float | None
    binary: str | None


@dataclass(frozen=True, kw_only=True)
class Work:
    """One attempt that handed in a result: who did what, when, and in which stages."""

    worker_id: str
    worker: str
    device_uuid: str
    job: str
    trial: int | None
    granted_at: datetime
    ended_at: datetime
    stages: Stages


class Landscape:
    """Queries over one session about one search."""

    def __init__(self, session: Session, search_id: int) -> None:
        self.session = session
        self.search_id = search_id

    def extent(self) -> int:
        """How many trials were asked."""
        last = self.session.scalar(select(func.max(TrialRow.number)).where(TrialRow.search_id == self.search_id))
        return 0 if last is None else last + 1

    def records(self, most: int = MOST_RECORDS) -> list[tuple[int, float]]:
        """(number, time in µs) of each trial that was faster than every one asked before it, in that order.

        Backwards from the fastest: one pass over an index in the order of time, however long the search is. Of more
        than `most`, the latest.
        """
        found: list[tuple[int, float]] = []
        query = select(TrialRow.number, TrialRow.time_us).where(*self._measured())
        query = query.order_by(TrialRow.time_us, TrialRow.number).limit(1)
        while len(found) < most and (row := self.session.execute(query).first()) is not None:
            number, time_us = row.number, row.time_us or 0.0
            found.append((number, time_us))
            query = query.where(TrialRow.time_us > time_us, TrialRow.number < number)
        return found[::-1]

    def times(self, most: int) -> list[tuple[int, float]]:
        """(number, time in µs) of measured trials, evenly over the search."""
        query = select(TrialRow.number, TrialRow.time_us).where(*self._measured(), self._even(most))
        return [(number, time_us or 0.0) for number, time_us in self.session.execute(query)]

    def even(self, most: int) -> list[Point]:
        """Measured trials evenly over the search, by number: what they show holds for all."""
        return self._points(self._read().where(self._even(most)).order_by(TrialRow.number))

    def fastest(self, most: int) -> list[Point]:
        """The fastest trials, fastest first."""
        return self._points(self._read().order_by(TrialRow.time_us, TrialRow.number).limit(most))

    def ended(self, most: int) -> list[End]:
        """Ended trials by number: all, or of a longer search the fastest and an even choice of the others."""
        columns = (
            TrialRow.number,
            TrialRow.proposal,
            TrialRow.outcome_kind,
            _QUICK_US,
            TrialRow.binary_digest,
        )
        query = select(*columns).where(TrialRow.search_id == self.search_id, TrialRow.outcome_kind.is_not(None))
        queries = [query]
        if self.extent() > most:
            fastest = query.where(TrialRow.time_us.is_not(None)).order_by(TrialRow.time_us, TrialRow.number)
            queries = [fastest.limit(most // 2), query.where(self._even(most - most // 2))]
        found = {
            number: End(number=number, config=proposal.config, kind=kind or "", time_us=time_us, binary=binary)
            for each in queries
            for number, proposal, kind, time_us, binary in self.session.execute(each)
        }
        return [found[number] for number in sorted(found)]

    def outcomes(self, parts: int) -> list[Counted]:
        """Trials by how they ended, in equal parts of the search by the order asked.

        Where a part begins is looked up by number; trials are then told apart by their row id, which grows with the
        number and stands beside the outcome in an index: the numbers of all would need every trial to be read.
        """
        asked = self.extent()
        begins = [-(-place * asked // parts) for place in range(1, parts)]
        ids = select(TrialRow.id).where(TrialRow.search_id == self.search_id, TrialRow.number.in_(begins))
        bounds = list(self.session.scalars(ids.order_by(TrialRow.number)))
        part = _part(bounds, 0).label("part")
        each = select(part, TrialRow.outcome_kind).where(TrialRow.search_id == self.search_id).subquery()
        query = select(each.c.part, each.c.outcome_kind, func.count()).group_by(each.c.part, each.c.outcome_kind)
        rows = self.session.execute(query.order_by(each.c.part))
        return [Counted(part=part, kind=kind, count=count) for part, kind, count in rows]

    def relatives(self, numbers: Collection[int]) -> dict[int, Relative]:
        """These trials, by number."""
        columns = (TrialRow.number, TrialRow.time_us, TrialRow.outcome_kind, TrialRow.proposal)
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
        """The latest jobs that were done, by the attempts that handed in their results, oldest first."""
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
        """(kind of job, how many, their stages together) of all attempts that handed in a result."""
        stages = type_coerce(AttemptRow.result, JSON)["stages"]
        sums = [func.sum(_believable(stages[name].as_float())).label(name) for name in STAGES]
        query = select(JobRow.kind, func.count(), *sums).join(AttemptRow.job)
        query = query.where(JobRow.search_id == self.search_id, AttemptRow.state == "done").group_by(JobRow.kind)
        rows = self.session.execute(query.order_by(func.count().desc(), JobRow.kind))
        return [(kind, count, Stages(**dict(zip(STAGES, found, strict=True)))) for kind, count, *found in rows]

    def _read(self) -> Select[Any]:
        resources = type_coerce(TrialRow.outcome, JSON)["resources"].label("resources")
        return select(TrialRow.number, _QUICK_US, TrialRow.proposal, resources).where(*self._measured())

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

    def _measured(self) -> tuple[ColumnElement[bool], ...]:
        return TrialRow.search_id == self.search_id, TrialRow.time_us.is_not(None)


def _believable(span_s: ColumnElement[float]) -> ColumnElement[float]:
    """Of what was stored before reports were held to limits, sums may have no end."""
    return case((span_s.between(0.0, LONGEST_S), span_s), else_=0.0)


def _part(bounds: Sequence[int], first: int) -> ColumnElement[int]:
    """Between which of the row ids a trial stands, found by halves; `first` of them were ruled out before."""
    if not bounds:
        return literal_column(str(first), Integer)
    middle = len(bounds) // 2
    below, above = _part(bounds[:middle], first), _part(bounds[middle + 1 :], first + middle + 1)
    return case((TrialRow.id < bounds[middle], below), else_=above)
