"""Reference to a trial by search and number, e.g. ``3.57`` for trial 57 of search 3."""

import re
from dataclasses import dataclass

from sqlalchemy.orm import Session

from db.queries.numbered_trials import NumberedTrials
from db.repositories.archive import Archive
from evo.errors import InvalidInput, MissingItem
from evo.messages.view import TrialView
from evo.text.limits import LARGEST_ID

FORM = re.compile(r"(?:([0-9]{1,18})\.)?([0-9]{1,18})")


@dataclass(frozen=True, kw_only=True)
class TrialReference:
    """Search id and number of a trial, independent of its database id."""

    search: int
    number: int

    @classmethod
    def of(cls, trial: TrialView) -> "TrialReference":
        return cls(search=trial.search_id, number=trial.number)

    def __str__(self) -> str:
        return f"{self.search}.{self.number}"

    @property
    def path(self) -> str:
        """Path of the trial's page."""
        return f"/searches/{self.search}/trials/{self.number}"

    def row(self, session: Session) -> int:
        """Return the database id of the trial.

        Raises:
            NotFound: the trial does not exist.
        """
        if max(self.search, self.number) > LARGEST_ID:
            raise MissingItem("trial", self)
        return NumberedTrials(session, self.search).numbered(self.number).id


def parse_reference(session: Session, field: str, text: str, search: int | None) -> TrialReference:
    """Return the trial that a string identifies.

    The string has one of three forms: ``3.57`` (trial 57 of search 3), the number of a trial of `search` if `search` is
    given, or a trial's database id (from an old link) if `search` is None.

    Raises:
        InvalidInput: the string has none of the three forms.
        NotFound: no trial has this database id.
    """
    if not text.strip():
        raise InvalidInput(
            field, "is missing; tick two trials of a leaderboard and press Compare, or write a trial such as 3.57"
        )
    match = FORM.fullmatch(text.strip())
    if match is None:
        raise InvalidInput(field, "write the search and the trial number, e.g. 3.57 for trial 57 of search 3")
    named, number = match.groups()
    if named or search is not None:
        return TrialReference(search=int(named or search or 0), number=int(number))
    if int(number) > LARGEST_ID:
        raise MissingItem("trial", number)
    row = Archive(session).trial(int(number))
    return TrialReference(search=row.search_id, number=row.number)
