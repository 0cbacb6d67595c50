"""How the times of a search went down, in as few points as a drawing needs, whatever its length."""

from collections.abc import Collection

from sqlalchemy import Integer, cast, func, select
from sqlalchemy.orm import Session

from db.models import TrialRow

Points = list[tuple[int, float]]
"""(number of a trial, time in µs), by number."""


class Trends:
    """Queries over one session; they read an index and none of the trials."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def lows(self, searches: Collection[int], points: int) -> dict[int, Points]:
        """The fastest trial of each of `points` equal parts of a search, by number; parts without one are left out."""
        mine = TrialRow.search_id.in_(searches)
        ends = select(TrialRow.search_id, (func.max(TrialRow.number) + 1).label("count")).where(mine)
        sizes = ends.group_by(TrialRow.search_id).subquery()
        part = cast(TrialRow.number * points / sizes.c.count, Integer).label("part")
        query = (
            select(TrialRow.search_id, func.max(TrialRow.number), func.min(TrialRow.time_us))
            .join(sizes, sizes.c.search_id == TrialRow.search_id)
            .where(mine, TrialRow.time_us.is_not(None))
            .group_by(TrialRow.search_id, part)
            .order_by(TrialRow.search_id, part)
        )
        found: dict[int, Points] = {search: [] for search in searches}
        for search, number, time_us in self.session.execute(query):
            found[search].append((number, time_us or 0.0))
        return found
