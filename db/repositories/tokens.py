"""Repository of access tokens and browser sessions.

The secret of a token is returned only once. The database stores only its SHA-256.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, or_, select, update
from sqlalchemy.orm import Session

from db.models import SessionRow, TokenRow
from evo.errors import Conflict, NotFound
from evo.messages.access import Role

SESSION = timedelta(hours=12)
"""Maximum duration of a browser session."""

SLACK = timedelta(seconds=5)
"""Tolerated difference between the clocks of service processes."""

SECRET_BYTES = 32
ID_BYTES = 6
_SECRET = re.compile(r"ke[vj]_([0-9a-f]{12})_([0-9A-Za-z_-]{43})")
"""Format of a secret: ``kev_`` (access token) or ``kej_`` (join token), the token id, and 256 random bits."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Name, rights and lifetime of a new token.

    `worker_id` is the only worker that may use the token; None if any worker may use it. The token does not expire if
    `expires_at` is None. `join` is True for a join token, which can be exchanged once for a worker token.
    """

    name: str
    roles: Sequence[Role] = ()
    join: bool = False
    worker_id: str | None = None
    expires_at: datetime | None = None


class Tokens:
    """Reads and changes tokens and browser sessions within one session. The caller commits the session."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def any(self) -> bool:
        """Return True if any token was ever created. In this case, every request needs a token."""
        return self.session.scalar(select(TokenRow.id).limit(1)) is not None

    def all(self) -> Sequence[TokenRow]:
        """Return all tokens, newest first, including expired and revoked ones."""
        return self.session.scalars(select(TokenRow).order_by(TokenRow.created_at.desc(), TokenRow.id)).all()

    def admins(self, now: datetime) -> Sequence[TokenRow]:
        """Return the valid tokens with the admin role."""
        return [row for row in self.all() if "admin" in row.roles and _valid(row, now)]

    def token(self, token_id: str) -> TokenRow:
        if (row := self.session.get(TokenRow, token_id)) is None:
            raise NotFound(f"token {token_id!r} does not exist; `kernel-evo token list` shows all tokens")
        return row

    def issue(self, terms: Terms, *, by: str, now: datetime) -> tuple[str, TokenRow]:
        """Create a token. Return its secret and its row."""
        token_id = secrets.token_hex(ID_BYTES)
        secret = f"ke{'j' if terms.join else 'v'}_{token_id}_{secrets.token_urlsafe(SECRET_BYTES)}"
        row = TokenRow(
            id=token_id,
            digest=_digest(secret),
            name=terms.name,
            roles=list(terms.roles),
            join=terms.join,
            worker_id=terms.worker_id,
            created_at=now,
            created_by=by,
            expires_at=terms.expires_at,
        )
        self.session.add(row)
        self.session.flush()
        return secret, row

    def holder(self, secret: str, now: datetime) -> TokenRow | None:
        """Return the valid token that has this secret, or None."""
        if (parts := _SECRET.fullmatch(secret)) is None:
            return None
        row = self.session.get(TokenRow, parts[1])
        if row is None or not hmac.compare_digest(row.digest, _digest(secret)):
            return None
        return row if _valid(row, now) else None

    def use(self, token_id: str, now: datetime) -> None:
        """Record that a token was used."""
        self.session.execute(update(TokenRow).where(TokenRow.id == token_id).values(last_used_at=now))

    def revoke(self, token_id: str, now: datetime) -> TokenRow:
        """Revoke a token, end its browser sessions, and return its row."""
        row = self.token(token_id)
        row.revoked_at = row.revoked_at or now
        self.session.execute(delete(SessionRow).where(SessionRow.token_id == token_id))
        return row

    def rotate(self, token_id: str, *, by: str, grace: timedelta, now: datetime) -> tuple[str, TokenRow]:
        """Replace a token with a new token that has the same rights and lifetime. Return its secret and its row.

        The old token expires after `grace`, or earlier if it would have expired earlier. It is revoked at once if
        `grace` is zero.

        Raises:
            Conflict: the token has expired, was revoked, or is a join token.
        """
        row = self.token(token_id)
        if row.join or not _valid(row, now):
            raise Conflict(f"token {token_id} cannot be rotated, because it is {_state(row)}; create a new token")
        lifetime = None if row.expires_at is None else row.expires_at - row.created_at
        terms = Terms(
            name=row.name,
            roles=row.roles,
            worker_id=row.worker_id,
            expires_at=None if lifetime is None else now + lifetime,
        )
        if grace:
            row.expires_at = now + grace if row.expires_at is None else min(row.expires_at, now + grace)
        else:
            self.revoke(token_id, now)
        return self.issue(terms, by=by, now=now)

    def admit(self, join: TokenRow, *, worker_id: str, name: str | None, now: datetime) -> tuple[str, TokenRow]:
        """Exchange a join token for a worker token. Return the secret and the row of the worker token.

        The worker's earlier tokens are revoked.

        Args:
            name: name of the worker token. If None, it gets the name of the join token.

        Raises:
            Conflict: the join token was already used, or was created for a different worker.
        """
        if join.worker_id not in {None, worker_id}:
            raise Conflict(f"this join token is for worker {join.worker_id!r}, not for {worker_id!r}")
        used = update(TokenRow).where(TokenRow.id == join.id, TokenRow.revoked_at.is_(None))
        taken = self.session.execute(
            used.values(revoked_at=now, last_used_at=now, worker_id=worker_id)
            .returning(TokenRow.id)
            .execution_options(synchronize_session=False)
        )
        if taken.first() is None:
            raise Conflict("this join token was already used; create a new one (`kernel-evo token join`)")
        for earlier in self._of_worker(worker_id, now):
            self.revoke(earlier.id, now)
        terms = Terms(name=name or join.name, roles=("worker",), worker_id=worker_id)
        return self.issue(terms, by=f"join token {join.id} ({join.name})", now=now)

    def bind(self, token_id: str, worker_id: str, now: datetime) -> None:
        """Restrict a token to requests of one worker. A token that is already restricted to a worker is not changed.

        Raises:
            Conflict: the worker already has a different token.
        """
        row = self.token(token_id)
        if row.worker_id is None and self._of_worker(worker_id, now):
            raise Conflict(
                f"worker {worker_id!r} has a different token; register under another --id, use that token, "
                "or let an admin revoke it"
            )
        row.worker_id = row.worker_id or worker_id

    def begin_session(self, token_id: str, *, until: datetime, now: datetime) -> str:
        """Create a browser session and return its secret. Delete expired sessions."""
        self.session.execute(delete(SessionRow).where(SessionRow.expires_at <= now))
        secret = secrets.token_urlsafe(SECRET_BYTES)
        self.session.add(SessionRow(digest=_digest(secret), token_id=token_id, created_at=now, expires_at=until))
        return secret

    def session_holder(self, secret: str, now: datetime) -> TokenRow | None:
        """Return the token of a session, or None if the session or the token has expired or was revoked."""
        row = self.session.get(SessionRow, _digest(secret))
        if row is None or row.expires_at <= now:
            return None
        token = self.session.get(TokenRow, row.token_id)
        return token if token is not None and _valid(token, now) else None

    def reset_ahead(self, now: datetime) -> None:
        """Correct sessions and tokens that were created while a clock was ahead.

        Sessions that last longer than `SESSION` are shortened. The lifetime of tokens that were created after `now`
        begins now.
        """
        late = update(SessionRow).where(SessionRow.expires_at > now + SESSION)
        self.session.execute(late.values(expires_at=now + SESSION).execution_options(synchronize_session=False))
        for row in self.session.scalars(select(TokenRow).where(TokenRow.created_at > now + SLACK)):
            ahead, row.created_at = row.created_at - now, now
            row.expires_at = None if row.expires_at is None else row.expires_at - ahead

    def end_session(self, secret: str) -> None:
        self.session.execute(delete(SessionRow).where(SessionRow.digest == _digest(secret)))

    def _of_worker(self, worker_id: str, now: datetime) -> Iterable[TokenRow]:
        live = select(TokenRow).where(
            TokenRow.worker_id == worker_id,
            TokenRow.join.is_(False),
            TokenRow.revoked_at.is_(None),
            or_(TokenRow.expires_at.is_(None), TokenRow.expires_at > now),
        )
        return self.session.scalars(live).all()


def _valid(row: TokenRow, now: datetime) -> bool:
    return row.revoked_at is None and (row.expires_at is None or row.expires_at > now)


def _state(row: TokenRow) -> str:
    return "a join token" if row.join else "revoked" if row.revoked_at else "expired"


def _digest(secret: str) -> str:
    """Return the SHA-256 of a secret. A slow password hash is unnecessary for 256 random bits."""
    return hashlib.sha256(secret.encode()).hexdigest()
