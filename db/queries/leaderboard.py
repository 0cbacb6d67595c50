"""Leaderboard queries: filter, sort and page up to hundreds of thousands of trials quickly.

A list contains the trials with a sort key, sorted by this key, then the trials without a key, sorted by number. The
ranking is also divided into groups (`db.queries.selection.groups_of`): the champion, confirmed trials, and all other
trials. Each group has an index, so a page reads only part of an index and never sorts the whole search.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate

from sqlalchemy import ColumnElement, Select, and_, func, select, tuple_
from sqlalchemy.orm import Session, aliased

from db.models import AttemptRow, JobRow, SearchRow, TrialRow, WorkerRow
from db.queries.selection import Order, Selection, conditions_of, group_of, groups_of, key_of
from db.repositories.readable import readable
from evo.trial import Value

NEARBY = 5_000
"""Number of trials that are searched for the first values of a tunable, before all trials are sorted by the tunable."""


@dataclass(frozen=True, kw_only=True)
class PagePosition:
    """Position of the last trial on a page: sort key (None if the trial has no key), number, id and group."""

    key: Value | None
    number: int
    id: int
    group: int = 0


@dataclass(frozen=True, kw_only=True)
class Measurer:
    """Worker and device that evaluated a trial."""

    worker_id: str
    worker: str
    device_uuid: str


class Leaderboard:
    """Reads filtered, sorted and paged trials."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def count(self, selection: Selection, *, most: int) -> int:
        """Count the selected trials. Counting stops at `most`."""
        found = select(TrialRow.id).where(*conditions_of(selection)).limit(most).subquery()
        return self.session.scalar(select(func.count()).select_from(found)) or 0

    def page(self, selection: Selection, *, offset: int = 0, limit: int) -> Sequence[TrialRow]:
        """Return up to `limit` selected trials, starting at `offset`."""
        if len(ids := self._nearby(selection, offset=offset, limit=limit)) == limit:
            return self._rows(ids)
        ids = []
        for part in _parts(selection):
            ids += self.session.scalars(part.query.offset(offset).limit(limit - len(ids)))
            if len(ids) == limit:
                break
            offset = max(0, offset - self._count(part.query)) if offset and not ids else 0
        return self._rows(ids)

    def look(self, selection: Selection, *, offset: int, limit: int, most: int) -> tuple[Sequence[TrialRow], int]:
        """Return a page of selected trials, and the number of selected trials, counted up to `most`.

        With a text filter, one query gives both results if it finds fewer than `most` trials. These trials are sorted
        in memory.
        """
        order = selection.order
        if not selection.text or order.texts:
            return self.page(selection, offset=offset, limit=limit), self.count(selection, most=most)
        columns = (group_of(selection), key_of(order), TrialRow.number, TrialRow.id)
        query = select(*columns).where(*conditions_of(selection))
        found = [tuple(row) for row in self.session.execute(query.limit(most))]
        if len(found) == most:
            return self.page(selection, offset=offset, limit=limit), most
        keyed = sorted((row for row in found if row[1] is not None), reverse=order.descending)
        rest = sorted(row[2:] for row in found if row[1] is None)
        ids = [row[-1] for row in [*keyed, *rest][offset : offset + limit]]
        return self._rows(ids), len(found)

    def after(self, selection: Selection, position: PagePosition | None, *, limit: int) -> Sequence[TrialRow]:
        """Return up to `limit` trials after a position, or the first trials if the position is None.

        Positions stay valid while trials are added.
        """
        rows: list[TrialRow] = []
        while len(rows) < limit:
            ids = self._ids_after(selection, position, limit - len(rows))
            found = self._rows(ids)
            rows += found
            if len(found) == len(ids):  # otherwise, later trials replace the unreadable ones
                break
            position = self.place(selection, ids[-1])
        return rows

    def _ids_after(self, selection: Selection, position: PagePosition | None, limit: int) -> list[int]:
        parts, ids = _parts(selection), list[int]()
        if position is not None:
            begun = next((index for index, part in enumerate(parts) if part.contains(position)), len(parts))
            parts = parts[begun:]
        for part in parts:
            query = part.query if position is None else _behind(part, selection.order, position)
            ids += self.session.scalars(query.limit(limit - len(ids)))
            if len(ids) == limit:
                break
            position = None
        return ids

    def place(self, selection: Selection, trial_id: int) -> PagePosition:
        """Return the position of a trial. The next page begins after it."""
        query = select(key_of(selection.order), TrialRow.number, group_of(selection)).where(TrialRow.id == trial_id)
        key, number, group = self.session.execute(query).one()
        return PagePosition(key=key, number=number, id=trial_id, group=group)

    def ranks(self, searches: Collection[int], trials: Collection[int]) -> dict[int, int]:
        """Return the rank (from 1) of each given trial among all trials of the searches that have a cost, by trial id.

        The trials of a group (`db.queries.selection.groups_of`) rank after all trials of earlier groups. Given trials
        without a cost are left out.
        """
        ranks: dict[int, int] = {}
        ahead = 0
        for group in groups_of(Selection(searches=tuple(searches))):
            competing = (TrialRow.search_id.in_(searches), TrialRow.cost.is_not(None), group)
            ranks |= {trial: ahead + rank for trial, rank in self._ranks_among(competing, trials).items()}
            if len(ranks) == len(trials):
                break
            ahead += self.session.scalar(select(func.count(TrialRow.number)).where(*competing)) or 0
        return {trial_id: ranks[trial_id] for trial_id in trials if trial_id in ranks}

    def _ranks_among(self, competing: Sequence[ColumnElement[bool]], trials: Collection[int]) -> dict[int, int]:
        """Return the rank of each given trial among the competing trials, by trial id.

        The query does not rank all trials. It uses an index to count the trials between the costs of consecutive given
        trials.
        """
        wanted = select(TrialRow.cost).where(*competing, TrialRow.id.in_(trials)).distinct()
        costs = list(self.session.scalars(wanted.order_by(TrialRow.cost)))
        if not costs:
            return {}
        since = [TrialRow.cost >= low for low in costs[:-1]]
        below = [TrialRow.cost < costs[0], *map(and_, since, (TrialRow.cost < high for high in costs[1:]))]
        steps = [select(func.count(TrialRow.number)).where(*competing, part).scalar_subquery() for part in below]
        ahead = accumulate(self.session.execute(select(*steps)).one())
        tied = select(TrialRow.cost, TrialRow.id).where(*competing, TrialRow.cost.in_(costs))
        ids: dict[float | None, list[int]] = {cost: [] for cost in costs}
        for cost, trial_id in self.session.execute(tied.order_by(TrialRow.cost, TrialRow.number, TrialRow.id)):
            ids[cost].append(trial_id)
        ranked = zip(ahead, ids.values(), strict=True)
        every = {trial_id: first + index for first, tie in ranked for index, trial_id in enumerate(tie, 1)}
        return {trial_id: every[trial_id] for trial_id in trials if trial_id in every}

    def measurers(self, trials: Collection[int]) -> dict[int, Measurer]:
        """Return the worker and device that evaluated each trial, by trial id. Trials without a result are left out."""
        query = (
            select(JobRow.trial_id, AttemptRow.worker_id, AttemptRow.device_uuid, WorkerRow.name, AttemptRow.state)
            .join(AttemptRow.job)
            .join(WorkerRow, WorkerRow.id == AttemptRow.worker_id)
            .where(JobRow.trial_id.in_(trials), JobRow.kind == "evaluate")
            .order_by(AttemptRow.id)
        )
        return {
            trial_id: Measurer(worker_id=worker_id, worker=name, device_uuid=uuid)
            for trial_id, worker_id, uuid, name, state in self.session.execute(query)
            if trial_id is not None and state == "done"
        }

    def duplicates(self, trials: Collection[int]) -> dict[int, int]:
        """Return, by trial id, the number of the first trial in the same search with the same binary.

        Trials that are themselves the first with their binary, and trials without a binary, are left out.
        """
        other = aliased(TrialRow)
        same = (other.search_id == TrialRow.search_id) & (other.binary_digest == TrialRow.binary_digest)
        first = func.min(other.number)
        query = select(TrialRow.id, first).join(other, same).where(TrialRow.id.in_(trials))
        grouped = query.group_by(TrialRow.id, TrialRow.number).having(first < TrialRow.number)
        return {row[0]: row[1] for row in self.session.execute(grouped)}

    def searches_of(self, *, family: str, problem_key: str, objective_key: str, device_model: str) -> tuple[int, ...]:
        """Return the ids of the searches that compete for the same champion, oldest first."""
        query = select(SearchRow).join(SearchRow.family).where(SearchRow.problem_key == problem_key)
        rows = self.session.scalars(query.where(SearchRow.family.has(name=family)).order_by(SearchRow.id))
        terms = (objective_key, device_model)
        return tuple(row.id for row in rows if (row.objective.key, row.device.model) == terms)

    def _nearby(self, selection: Selection, *, offset: int, limit: int) -> list[int]:
        """Return the ids of the trials on a page, if all of them have the tunable value that sorts first.

        Only the `NEARBY` trials with the lowest numbers (in descending order: the highest numbers) are read, because
        they usually contain enough trials with this value. Otherwise, the result has fewer than `limit` ids, and the
        caller must not use it. The result is empty if several searches are listed, or if the value that sorts first is
        unknown (`Order.foremost`).
        """
        order = selection.order
        if order.foremost is None or len(selection.searches) != 1:
            return []
        number = TrialRow.number.desc() if order.descending else TrialRow.number
        window = select(TrialRow.id).where(TrialRow.search_id == selection.searches[0]).order_by(number).limit(NEARBY)
        query = select(TrialRow.id).where(TrialRow.id.in_(window), *conditions_of(selection))
        query = query.where(key_of(order) == order.foremost).order_by(number)
        return list(self.session.scalars(query.offset(offset).limit(limit)))

    def _count(self, ids: Select[int]) -> int:
        return self.session.scalar(select(func.count()).select_from(ids.order_by(None).subquery())) or 0

    def _rows(self, ids: Sequence[int]) -> Sequence[TrialRow]:
        """Return the trials with these ids, in the order of the ids. Unreadable trials are left out."""
        rows = {row.id: row for row in readable(self.session, select(TrialRow).where(TrialRow.id.in_(ids)))}
        return [rows[each] for each in ids if each in rows]


@dataclass(frozen=True, kw_only=True)
class _Part:
    """Sorted query for the ids of one group of trials.

    Attributes:
        keyed: True if the trials have a sort key. Trials without a key are one group, which comes last.
    """

    query: Select[int]
    group: int = 0
    keyed: bool = True

    def contains(self, position: PagePosition) -> bool:
        return self.keyed is (position.key is not None) and (not self.keyed or self.group == position.group)


def _parts(selection: Selection) -> list[_Part]:
    """Return the parts of a list in order: one part for each group of trials, then the trials without a sort key.

    If the list is sorted by the number, the origin or a tunable, all trials have a key, and there is only one part.
    """
    query, order = select(TrialRow.id).where(*conditions_of(selection)), selection.order
    key = key_of(order)
    columns = (key, TrialRow.number, TrialRow.id)
    keyed = query.order_by(*(column.desc() for column in columns) if order.descending else columns)
    if order.key in ("number", "origin") or order.sample is not None:
        return [_Part(query=keyed)]
    keyed = keyed.where(key.is_not(None))
    groups = [_Part(query=keyed.where(each), group=index) for index, each in enumerate(groups_of(selection))]
    rest = query.where(key.is_(None)).order_by(TrialRow.number, TrialRow.id)
    return [*(reversed(groups) if order.descending else groups), _Part(query=rest, keyed=False)]


def _behind(part: _Part, order: Order, position: PagePosition) -> Select[int]:
    """Return the query for the trials of a part that come after a position."""
    if not part.keyed:
        mine, theirs = tuple_(TrialRow.number, TrialRow.id), tuple_(position.number, position.id)
        return part.query.where(mine > theirs)
    mine = tuple_(key_of(order), TrialRow.number, TrialRow.id)
    theirs = tuple_(position.key, position.number, position.id)
    return part.query.where(mine < theirs if order.descending else mine > theirs)
