"""Access tokens and browser sessions."""

from datetime import datetime

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from db.models.base import Base
from db.models.columns import Document
from evo.messages.access import Role


class TokenRow(Base):
    """An access token, stored as its SHA-256 only. One with `join` can be exchanged once for a worker's token."""

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
    """A browser session opened with a token; it ends when the token expires or is revoked."""

    __tablename__ = "sessions"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    token_id: Mapped[str] = mapped_column(ForeignKey("tokens.id"), index=True)
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]
