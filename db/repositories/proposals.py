"""Proposals of language models."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.models import ProposalRow
from db.repositories.variants import Variants
from evo.errors import Conflict, NotFound


class Proposals:
    """Reads and writes the proposals of searches in one transaction."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def of(self, search_id: int) -> Sequence[ProposalRow]:
        """Return the proposals of a search by number."""
        query = select(ProposalRow).where(ProposalRow.search_id == search_id).order_by(ProposalRow.number)
        return self.session.scalars(query).all()

    def numbered(self, search_id: int, number: int) -> ProposalRow:
        query = select(ProposalRow).where(ProposalRow.search_id == search_id, ProposalRow.number == number)
        if (row := self.session.scalars(query).first()) is None:
            raise NotFound(f"search {search_id} has no proposal {number}")
        return row

    def add(self, row: ProposalRow) -> ProposalRow:
        """Store a new proposal under the next number of its search."""
        Variants(self.session).lock(row.search_id)
        last = select(func.max(ProposalRow.number)).where(ProposalRow.search_id == row.search_id)
        row.number = (self.session.scalar(last) or 0) + 1
        self.session.add(row)
        self.session.flush()
        return row

    def answer(
        self, row: ProposalRow, *, answer: str, tokens_in: int, tokens_out: int, usd: float, now: datetime
    ) -> None:
        """Store a model's answer with what it cost.

        Raises:
            Conflict: another answer was stored before.
        """
        if row.answer is not None and row.answer != answer:
            raise Conflict(f"proposal {row.number} has been answered before")
        row.answer, row.tokens_in, row.tokens_out, row.usd = answer, tokens_in, tokens_out, usd
        row.answered_at = row.answered_at or now
