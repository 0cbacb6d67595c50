"""Repositories of variants of searches, and of the proposals of language models."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from db.models import ProposalRow, SearchRow, TrialRow, VariantRow
from evo.errors import Conflict, NotFound
from evo.trial import quick_cost

FAMILY = 0
"""Number of the family's own implementation among the variants of a search."""


def unknown_variant(search_id: int, number: int) -> str:
    """Return the error message for a variant number that a search does not have."""
    return f"search {search_id} has no variant {number}: `kernel-evo variant list {search_id}` lists them"


class Variants:
    """Reads and writes the variants of searches within one session. The caller commits the session."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def of_search(self, search_id: int) -> Sequence[VariantRow]:
        """Return the variants of a search, sorted by number."""
        query = select(VariantRow).where(VariantRow.search_id == search_id).order_by(VariantRow.number)
        return self.session.scalars(query).all()

    def tuned_by(self, search_id: int) -> VariantRow | None:
        """Return the variant that a search tunes, or None if the search tunes the family's own implementation."""
        return self.session.scalars(select(VariantRow).where(VariantRow.tuning_id == search_id)).first()

    def base_id(self, search_id: int) -> int:
        """Return the id of the base search: the search that has the variants.

        If the given search tunes a variant, its base search is the search to which the variant was submitted. Otherwise
        it is its own base search.
        """
        variant = self.tuned_by(search_id)
        return search_id if variant is None else variant.search_id

    def numbered(self, search_id: int, number: int) -> VariantRow | None:
        """Return a variant by its number in a search. Return None for the number of the family's own implementation.

        Raises:
            NotFound: the search has no variant with this number.
        """
        if number == FAMILY:
            return None
        query = select(VariantRow).where(VariantRow.search_id == search_id, VariantRow.number == number)
        if (row := self.session.scalars(query).first()) is None:
            raise NotFound(unknown_variant(search_id, number))
        return row

    def next_number(self, search_id: int) -> int:
        """Return the number for the next variant.

        The caller must lock the search first, because two variants may be submitted at the same time. Numbers of
        deleted variants are not used again, because parents, proposals and URLs refer to them.
        """
        return (self.session.scalar(select(SearchRow.last_variant).where(SearchRow.id == search_id)) or FAMILY) + 1

    def add(self, row: VariantRow) -> None:
        """Store a new variant under the number that `next_number` returned."""
        self.session.add(row)
        self.session.execute(update(SearchRow).where(SearchRow.id == row.search_id).values(last_variant=row.number))

    def lock(self, search_id: int) -> None:
        """Lock a search until the transaction ends. Other transactions then wait before they number its variants."""
        self.session.execute(select(SearchRow.id).where(SearchRow.id == search_id).with_for_update())

    def searches_of(self, search_id: int) -> list[int]:
        """Return the id of a search and the ids of the searches that tune its variants."""
        return [search_id, *(row.tuning_id for row in self.of_search(search_id))]

    def earlier_searches(self, variant: VariantRow) -> list[int]:
        """Return the ids of the base search and of the searches that tune variants submitted before this variant."""
        before = [row.tuning_id for row in self.of_search(variant.search_id) if row.number < variant.number]
        return [variant.search_id, *before]

    def costs_of_all(self, search_id: int) -> list[float | None]:
        """Return the quick costs of all ended trials of a search and of its variants' searches, in order of end.

        A cost is None if the trial was not measured, or if a confirmation found its kernel invalid.
        """
        return self._costs(self.searches_of(search_id), TrialRow.finished_at, TrialRow.search_id, TrialRow.finished_seq)

    def binaries(self, search_ids: Collection[int]) -> list[str | None]:
        """Return the binary digest of each ended trial of the given searches, or None for a trial without a binary."""
        ended = TrialRow.search_id.in_(search_ids) & TrialRow.finished_seq.is_not(None)
        return list(self.session.scalars(select(TrialRow.binary_digest).where(ended)).all())

    def costs(self, search_id: int) -> list[float | None]:
        """Return the quick cost of each ended trial of a search, in the order in which the trials ended.

        The cost is that of `evo.trial.quick_cost`. It is None if the trial was not measured, or if a confirmation found
        its kernel invalid.
        """
        return self._costs([search_id], TrialRow.finished_seq)

    def _costs(self, search_ids: Collection[int], *order: Any) -> list[float | None]:
        """Return the quick cost of each ended trial of searches, sorted by the columns `order`.

        A cost is None if the trial was not measured, or if a confirmation found its kernel invalid. Outcomes are read
        only for confirmed trials.
        """
        ended = TrialRow.search_id.in_(search_ids) & TrialRow.finished_seq.is_not(None)
        confirmed = ended & TrialRow.cost.is_not(None) & TrialRow.quick_us.is_not(None)
        outcomes = self.session.execute(select(TrialRow.id, TrialRow.outcome).where(confirmed))
        quick = {trial_id: quick_cost(outcome) for trial_id, outcome in outcomes}
        rows = self.session.execute(select(TrialRow.id, TrialRow.cost).where(ended).order_by(*order))
        return [quick.get(trial_id, cost) for trial_id, cost in rows]


class Proposals:
    """Reads and writes the proposals of searches within one session. The caller commits the session."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def of_search(self, search_id: int) -> Sequence[ProposalRow]:
        """Return the proposals of a search, sorted by number."""
        query = select(ProposalRow).where(ProposalRow.search_id == search_id).order_by(ProposalRow.number)
        return self.session.scalars(query).all()

    def numbered(self, search_id: int, number: int) -> ProposalRow:
        query = select(ProposalRow).where(ProposalRow.search_id == search_id, ProposalRow.number == number)
        if (row := self.session.scalars(query).first()) is None:
            raise NotFound(f"search {search_id} has no proposal {number}")
        return row

    def add(self, row: ProposalRow) -> ProposalRow:
        """Store a new proposal under the next number of its search, and return it."""
        Variants(self.session).lock(row.search_id)
        last = select(func.max(ProposalRow.number)).where(ProposalRow.search_id == row.search_id)
        row.number = (self.session.scalar(last) or 0) + 1
        self.session.add(row)
        self.session.flush()
        return row

    def answer(
        self, row: ProposalRow, *, answer: str, tokens_in: int, tokens_out: int, usd: float, now: datetime
    ) -> None:
        """Store the answer of a language model, with the price and the numbers of tokens of request and answer.

        Raises:
            Conflict: a different answer is already stored.
        """
        if row.answer is not None and row.answer != answer:
            raise Conflict(f"proposal {row.number} was already answered")
        row.answer, row.tokens_in, row.tokens_out, row.usd = answer, tokens_in, tokens_out, usd
        row.answered_at = row.answered_at or now
