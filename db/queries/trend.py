"""Progress of the best cost of a search, reduced to a fixed number of points."""

from collections.abc import Collection

from sqlalchemy import Integer, cast, func, select
from sqlalchemy.orm import Session

from db.models import TrialRow

Points = list[tuple[int, float]]
"""(trial number, cost) pairs, sorted by number."""


class Trends:
    """Queries over one session; they read only an index."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def lows(self, searches: Collection[int], points: int) -> dict[int, Points]:
        """Return the least cost in each of `points` equal parts of each search; empty parts are left out."""
        mine = TrialRow.search_id.in_(searches)
        ends = select(TrialRow.search_id, (func.max(TrialRow.number) + 1).label("count")).where(mine)
        sizes = ends.group_by(TrialRow.search_id).subquery()
        part = cast(TrialRow.number * points / sizes.c.count, Integer).label("part")
        query = (
            select(TrialRow.search_id, func.max(TrialRow.number), func.min(TrialRow.cost))
            .join(sizes, sizes.c.search_id == TrialRow.search_id)
            .where(mine, TrialRow.cost.is_not(None))
            .group_by(TrialRow.search_id, part)
            .order_by(TrialRow.search_id, part)
        )
        found: dict[int, Points] = {search: [] for search in searches}
        for search, number, cost in self.session.execute(query):
            found[search].append((number, cost or 0.0))
        return found
