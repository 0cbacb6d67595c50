"""Stored responses to requests with an idempotency key. A repeated request gets the stored response."""

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
        same: True if the earlier request has the same fingerprint, and therefore the same content.
        answer: stored response. None while the request runs, or if no response was stored, for example because the
            service ended during the request.
    """

    same: bool
    answer: Answer | None


class StoredResponses:
    """Repository of stored responses.

    Each method uses a separate transaction, because the request itself opens its own transactions.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, key: str, fingerprint: str, now: datetime) -> Known | None:
        """Record a request. If its key is known, return the earlier request; otherwise return None.

        If the result is None, the caller must execute the request. Expired keys count as known until `drop_old_answers`
        removes them. They are not removed while the system clock is unreliable.
        """
        try:
            with self._database.write() as session:
                if (row := session.get(AnswerRow, key)) is not None:
                    return _known_answer(row, fingerprint)
                session.add(AnswerRow(key=key, fingerprint=fingerprint, asked_at=now))
                return None
        except IntegrityError:  # another process recorded the same key at the same time
            with self._database.read() as session:
                return _known_answer(session.scalars(select(AnswerRow).where(AnswerRow.key == key)).one(), fingerprint)

    def end(self, key: str, answer: Answer) -> None:
        """Store the response of a request."""
        with self._database.write() as session:
            if (row := session.get(AnswerRow, key)) is not None:
                row.status, row.headers, row.body = answer.status, list(answer.headers), answer.body

    def forget(self, key: str) -> None:
        """Delete the record of a request that had no effect, so that the request can be sent again."""
        with self._database.write() as session:
            session.execute(delete(AnswerRow).where(AnswerRow.key == key))


def drop_old_answers(session: Session, now: datetime) -> None:
    session.execute(delete(AnswerRow).where(AnswerRow.asked_at < now - KEPT))


def _known_answer(row: AnswerRow, fingerprint: str) -> Known:
    answer = None
    if row.status is not None:
        answer = Answer(status=row.status, headers=tuple(row.headers or ()), body=row.body or b"")
    return Known(same=row.fingerprint == fingerprint, answer=answer)
