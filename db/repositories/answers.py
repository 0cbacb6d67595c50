"""Stored responses to requests with an idempotency key, so that a repeated request is carried out once."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from db.engine.session import Database
from db.models import AnswerRow

KEPT = timedelta(hours=24)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A stored HTTP response."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Known:
    """An earlier request with the same key.

    Attributes:
        same: True if its fingerprint is equal, so that it was the same request.
        answer: None while the request runs, or if the service ended before it finished.
    """

    same: bool
    answer: Answer | None


class StoredResponses:
    """Repository of stored responses. Each method is its own transaction, because the request itself opens others."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, key: str, fingerprint: str, now: datetime) -> Known | None:
        """Record a request. Return None if no earlier one with this key is stored, so that it must be carried out now.

        Only `drop_old_answers` removes keys by age: it is not called while the clock is in doubt.
        """
        try:
            with self._database.write() as session:
                if (row := session.get(AnswerRow, key)) is not None:
                    return _known_answer(row, fingerprint)
                session.add(AnswerRow(key=key, fingerprint=fingerprint, asked_at=now))
                return None
        except IntegrityError:  # another process recorded it at the same time
            with self._database.read() as session:
                return _known_answer(session.scalars(select(AnswerRow).where(AnswerRow.key == key)).one(), fingerprint)

    def end(self, key: str, answer: Answer) -> None:
        """Store the response of a request."""
        with self._database.write() as session:
            if (row := session.get(AnswerRow, key)) is not None:
                row.status, row.headers, row.body = answer.status, list(answer.headers), answer.body

    def forget(self, key: str) -> None:
        """Remove a request that failed without an effect, so that it can be sent again."""
        with self._database.write() as session:
            session.execute(delete(AnswerRow).where(AnswerRow.key == key))


def drop_old_answers(session: Session, now: datetime) -> None:
    session.execute(delete(AnswerRow).where(AnswerRow.asked_at < now - KEPT))


def _known_answer(row: AnswerRow, fingerprint: str) -> Known:
    answer = None
    if row.status is not None:
        answer = Answer(status=row.status, headers=tuple(row.headers or ()), body=row.body or b"")
    return Known(same=row.fingerprint == fingerprint, answer=answer)
