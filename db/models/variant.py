"""Variants of a search."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from db.models.base import NUMBERED_ONCE, Base
from db.models.columns import Document


class VariantRow(Base):
    """A variant that was submitted to a search, and the search that tunes it.

    `number` counts the variants of one search from 1; 0 is the family's own implementation, which has no row.
    `parents` holds numbers. `most_trials` bounds the trials that successive halving may give it.
    """

    __tablename__ = "variants"
    __table_args__ = (Index(None, "search_id", "number", unique=True), NUMBERED_ONCE)

    id: Mapped[int] = mapped_column(primary_key=True)
    search_id: Mapped[int] = mapped_column(ForeignKey("searches.id"))
    number: Mapped[int]
    tuning_id: Mapped[int] = mapped_column(ForeignKey("searches.id"), unique=True)
    name: Mapped[str]
    author: Mapped[str]
    idea: Mapped[str]
    parents: Mapped[Sequence[int]] = mapped_column(Document(tuple[int, ...]))
    most_trials: Mapped[int | None]
    submitted_at: Mapped[datetime]


class ProposalRow(Base):
    """One request to a language model, with its result.

    `number` counts the proposals of a search from 1. The row is stored before the request is sent. `usd` is then the
    most that it can cost, so that the cost is counted even if the program is killed; the answer replaces it with the
    actual cost.
    """

    __tablename__ = "proposals"
    __table_args__ = (Index(None, "search_id", "number", unique=True), NUMBERED_ONCE)

    id: Mapped[int] = mapped_column(primary_key=True)
    search_id: Mapped[int] = mapped_column(ForeignKey("searches.id"))
    number: Mapped[int]
    operator: Mapped[str]
    information: Mapped[str]
    model: Mapped[str]
    repairs: Mapped[int | None]
    prompt: Mapped[str]
    answer: Mapped[str | None]
    tokens_in: Mapped[int | None]
    tokens_out: Mapped[int | None]
    usd: Mapped[float]
    insight: Mapped[str] = mapped_column(default="", server_default=text("''"))
    error: Mapped[str | None]
    variant: Mapped[int | None]
    asked_at: Mapped[datetime]
    answered_at: Mapped[datetime | None]
