"""Queries for the trials of a search, by number."""

from collections.abc import Collection, Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.models import SearchRow, TrialRow
from evo.errors import MissingItem, NotFound


class NumberedTrials:
    """Reads trials of one search by their numbers."""

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
