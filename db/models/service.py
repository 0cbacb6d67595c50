"""Tables of artefacts, events, webhook deliveries, stored responses, tokens and sessions."""

from datetime import datetime
from typing import Literal

from sqlalchemy import BigInteger, ForeignKey, Index, Integer, LargeBinary, String
from sqlalchemy.orm import Mapped, mapped_column

from db.models.columns import NUMBERED_ONCE, Base, Document
from evo.messages.access import Role


class ArtefactRow(Base):
    """Metadata of an artefact file. The content is stored in the artefact folder."""

    __tablename__ = "artefacts"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    size: Mapped[int]
    media_type: Mapped[str]
    created_at: Mapped[datetime]


class EventRow(Base):
    """One entry of the event log, which refers to the row that changed.

    `trial_id` is None for changes of searches and workers, `search_id` for changes of workers, and `worker_id` for all
    other changes. Ids have the order of the commits (`db.engine.events`). `mark` is a random number. After a backup has
    been restored, `mark` shows whether the position of a reader belongs to this log.
    """

    __tablename__ = "events"
    __table_args__ = (
        Index(None, "search_id", "id"),
        NUMBERED_ONCE,
    )

    id: Mapped[int] = mapped_column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True)
    mark: Mapped[int] = mapped_column(BigInteger)
    kind: Mapped[Literal["trial", "search", "worker"]] = mapped_column(String(16))
    search_id: Mapped[int | None]
    trial_id: Mapped[int | None]
    worker_id: Mapped[str | None]


class DeliveryRow(Base):
    """A webhook message about the end of a search.

    `next_at` is the time of the next delivery attempt. It is None after a delivery or the last failed attempt.
    `delivered_at` is None until a delivery succeeds. `error` is the reason why the latest attempt failed, or None.
    `message_id` is globally unique, even after a backup was restored, so that receivers can detect duplicates.
    """

    __tablename__ = "deliveries"
    __table_args__ = (
        Index(None, "next_at"),
        Index("uq_deliveries_search_id", "search_id", unique=True),
        NUMBERED_ONCE,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    search_id: Mapped[int]
    message_id: Mapped[str] = mapped_column(String(64))
    url: Mapped[str]
    secret: Mapped[str]
    message: Mapped[str]
    created_at: Mapped[datetime]
    attempts: Mapped[int] = mapped_column(default=0)
    next_at: Mapped[datetime | None]
    delivered_at: Mapped[datetime | None]
    error: Mapped[str | None]


class AnswerRow(Base):
    """Response to a request with an idempotency key.

    `status` is the HTTP status of the response. `status`, `headers` and `body` are None while the request runs, and if
    the request was interrupted or its response may not be stored.
    """

    __tablename__ = "answers"
    __table_args__ = (Index(None, "asked_at"),)

    key: Mapped[str] = mapped_column(String(64), primary_key=True)
    fingerprint: Mapped[str] = mapped_column(String(64))
    asked_at: Mapped[datetime]
    status: Mapped[int | None]
    headers: Mapped[list[tuple[str, str]] | None] = mapped_column(Document(list[tuple[str, str]]))
    body: Mapped[bytes | None] = mapped_column(LargeBinary)


class TokenRow(Base):
    """An access token. Only the SHA-256 of its secret is stored.

    `join` is True for a join token, which can be exchanged once for a worker token. `worker_id` is the only worker that
    may use the token; None if the token is not bound to a worker. `expires_at` is None if the token does not expire,
    `last_used_at` if it was never used, and `revoked_at` if it was not revoked.
    """

    __tablename__ = "tokens"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    name: Mapped[str]
    roles: Mapped[list[Role]] = mapped_column(Document(list[Role]))
    join: Mapped[bool] = mapped_column(default=False)
    worker_id: Mapped[str | None] = mapped_column(index=True)
    created_at: Mapped[datetime]
    created_by: Mapped[str]
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class SessionRow(Base):
    """A browser session opened with a token. The session ends when the token expires or is revoked."""

    __tablename__ = "sessions"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    token_id: Mapped[str] = mapped_column(ForeignKey("tokens.id"), index=True)
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]
