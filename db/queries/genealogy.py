"""Queries for single trials of a search, by number and rank."""

from collections.abc import Collection, Mapping

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from db.models import SearchRow, TrialRow
from evo.errors import MissingItem, NotFound


class Genealogy:
    """Reads the trials of one search."""

    def __init__(self, session: Session, search_id: int) -> None:
        self.session = session
        self.search_id = search_id

    def numbered(self, number: int) -> TrialRow:
        """Return one trial by its number.

        Raises:
            NotFound: the search does not exist, or has no trial with this number.
        """
        if (row := self.every([number]).get(number)) is None:
            if self.session.get(SearchRow, self.search_id) is None:
                raise MissingItem("search", self.search_id, request="GET /searches lists them")
            listed = f"GET /searches/{self.search_id}/trials lists them"
            raise NotFound(f"search {self.search_id} has no trial {number}", request=listed)
        return row

    def every(self, numbers: Collection[int]) -> Mapping[int, TrialRow]:
        """Return the trials with these numbers, by number. Numbers without a trial are left out."""
        query = select(TrialRow).where(TrialRow.search_id == self.search_id, TrialRow.number.in_(numbers))
        return {row.number: row for row in self.session.scalars(query)}

    def rank(self, row: TrialRow) -> int | None:
        """Return the rank of a trial by cost, starting at 1, or None if the trial has no cost.

        If costs are equal, the earlier trial ranks first.
        """
        if row.cost is None:
            return None
        tied = (TrialRow.cost == row.cost) & (TrialRow.number < row.number)
        ahead = select(func.count()).where(TrialRow.search_id == self.search_id, or_(TrialRow.cost < row.cost, tied))
        return 1 + (self.session.scalar(ahead) or 0)
